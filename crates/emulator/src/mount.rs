//! The mount: `/dev/fuse` and mount(2), undone when dropped.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::Error;
use crate::wire::MAX_TRANSFER_BYTES;

/// A mounted FUSE connection.
#[derive(Debug)]
pub struct Mount {
    /// The connection, which never blocks.
    pub channel: File,
    target: CString,
}

impl Mount {
    /// Mounts on an existing directory; needs root.
    pub fn new(mountpoint: &Path) -> Result<Self, Error> {
        let name = mountpoint.display();
        match mountpoint.metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                return Err(Error::Config(format!(
                    "mountpoint {name:?} is no directory"
                )));
            }
            Err(source) => return Err(Error::system(format!("mountpoint {name:?}"))(source)),
        }
        let target = CString::new(mountpoint.as_os_str().as_bytes())
            .map_err(|_| Error::Config(format!("mountpoint {name:?} has a NUL in it")))?;
        let channel = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/fuse")
            .map_err(Error::system(
                "cannot open /dev/fuse (is the fuse module loaded?)",
            ))?;
        // Others may pass (a loop device works for whoever mounts it), but the modes hold.
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read={}",
            channel.as_raw_fd(),
            MAX_TRANSFER_BYTES
        );
        let options = CString::new(options).expect("no NUL in the options");
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOATIME;
        // SAFETY: every pointer is to a NUL-terminated string that outlives the call.
        let failed = unsafe {
            libc::mount(
                c"pgstow".as_ptr(),
                target.as_ptr(),
                c"fuse.pgstow".as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        };
        if failed != 0 {
            let source = io::Error::last_os_error();
            return Err(Error::system(format!(
                "cannot mount on {name:?} (root is needed)"
            ))(source));
        }
        Ok(Self { channel, target })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Detached, so that a file still open cannot keep the mount; already gone is well too.
        // SAFETY: the target is a NUL-terminated string.
        unsafe { libc::umount2(self.target.as_ptr(), libc::MNT_DETACH) };
    }
}
