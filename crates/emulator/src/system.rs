//! What the server asks of the operating system: a clock, signals, processor time.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

/// Above every ordinary program, below the kernel's own real-time threads.
const REALTIME_PRIORITY: i32 = 50;
const PR_SET_IO_FLUSHER: i32 = 57;
/// As large as any volume is.
const LARGE_BYTES: usize = 64 << 40;

/// Nanoseconds since the server's start.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Waits for any of the descriptors, or until the time is up.
pub fn poll(descriptors: &mut [libc::pollfd], wait_ns: Option<u64>) -> io::Result<()> {
    let timeout = wait_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), |timeout| timeout as *const _);
    // SAFETY: the slice and the timeout live across the call.
    let ready = unsafe {
        libc::ppoll(
            descriptors.as_mut_ptr(),
            descriptors.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
    match ready {
        0.. => Ok(()),
        _ => {
            descriptors
                .iter_mut()
                .for_each(|descriptor| descriptor.revents = 0);
            Err(io::Error::last_os_error()).or_else(|error| match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            })
        }
    }
}

const NO_DESCRIPTOR: RawFd = -1;
/// Where the handler writes; a handler can reach nothing else.
static SIGNALLED: AtomicI32 = AtomicI32::new(NO_DESCRIPTOR);

extern "C" fn on_signal(_signal: libc::c_int) {
    let one = 1u64;
    // SAFETY: write(2) is allowed in a handler; errno is the interrupted code's.
    unsafe {
        let saved = *libc::__errno_location();
        libc::write(
            SIGNALLED.load(Ordering::Relaxed),
            (&raw const one).cast(),
            8,
        );
        *libc::__errno_location() = saved;
    }
}

/// SIGTERM and SIGINT as a descriptor to poll; what handled them before does again afterwards.
#[derive(Debug)]
pub struct Signals {
    event: OwnedFd,
    before: Vec<(libc::c_int, libc::sigaction)>,
}

impl Signals {
    pub fn catch() -> io::Result<Self> {
        // SAFETY: plain system call; the result is checked.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        if SIGNALLED
            .compare_exchange(NO_DESCRIPTOR, event, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            // SAFETY: just opened, used by nobody.
            drop(unsafe { OwnedFd::from_raw_fd(event) });
            return Err(io::Error::other("this process serves already"));
        }
        // SAFETY: just opened, owned by nobody else.
        let mut signals = Self {
            event: unsafe { OwnedFd::from_raw_fd(event) },
            before: vec![],
        };
        for signal in [libc::SIGTERM, libc::SIGINT] {
            // SAFETY: both structures are of the right type; the handler is async-signal-safe.
            unsafe {
                let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                let mut before = action;
                action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
                libc::sigemptyset(&raw mut action.sa_mask);
                if libc::sigaction(signal, &raw const action, &raw mut before) != 0 {
                    return Err(io::Error::last_os_error());
                }
                signals.before.push((signal, before));
            }
        }
        Ok(signals)
    }

    pub fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: what sigaction gave us.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
        SIGNALLED.store(NO_DESCRIPTOR, Ordering::SeqCst);
    }
}

/// Tells the kernel that memory for the calling thread must not wait for writes that wait for this
/// thread, and that only its own disk's dirty pages slow it down. Best effort: it needs
/// CAP_SYS_RESOURCE.
pub fn become_io_flusher() {
    // SAFETY: plain call about the calling thread.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// The thread's scheduling while it serves, put back afterwards. All of it is best effort:
/// without the rights the server works, with more spread in its latencies.
#[derive(Debug)]
pub struct Priority {
    policy: libc::c_int,
    parameters: libc::sched_param,
}

impl Priority {
    pub fn raise() -> Self {
        // SAFETY: plain calls about the calling thread; `parameters` is of the right type.
        unsafe {
            let mut parameters: libc::sched_param = MaybeUninit::zeroed().assume_init();
            libc::sched_getparam(0, &raw mut parameters);
            let policy = libc::sched_getscheduler(0).max(libc::SCHED_OTHER);
            let raised = libc::sched_param {
                sched_priority: REALTIME_PRIORITY,
            };
            let realtime = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
            libc::sched_setscheduler(0, realtime, &raw const raised);
            // Timers to the nanosecond where the real-time policy is refused.
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
            become_io_flusher();
            Self { policy, parameters }
        }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        // SAFETY: what the kernel gave us, for the calling thread.
        unsafe {
            libc::sched_setscheduler(0, self.policy, &raw const self.parameters);
            libc::prctl(libc::PR_SET_TIMERSLACK, 0);
            libc::prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
        }
    }
}

/// The server's own memory (code, heap, stacks, buffers) kept from being paged out while it
/// serves: what the kernel would have to read in again would stand between a request and its
/// reply. Pages are locked when they are first used, so nothing is filled beforehand. Volumes'
/// data is left out ([`unlock`]). Best effort too: it needs CAP_IPC_LOCK or a limit that suffices.
#[derive(Debug)]
pub struct MemoryLock(());

impl MemoryLock {
    pub fn take() -> Self {
        // SAFETY: plain system call about the calling process.
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
        let lock = Self(());
        if !may_map(LARGE_BYTES) {
            drop(lock); // a limit (RLIMIT_MEMLOCK) counts volumes before they can be left out
            return Self(());
        }
        lock
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        // SAFETY: plain system call about the calling process.
        unsafe { libc::munlockall() };
    }
}

/// Whether a mapping of that size is allowed; it takes no memory.
fn may_map(length: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping that nobody uses, and taken away again.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, flags, -1, 0);
        start != libc::MAP_FAILED && libc::munmap(start, length) == 0
    }
}

/// Takes a mapping out of the lock. Volumes are large and thin: they may be swapped where there is
/// swap, and MADV_DONTNEED, which gives memory back, refuses what is locked.
///
/// # Safety
///
/// The range must be the caller's own mapping.
pub unsafe fn unlock(start: *mut libc::c_void, length: usize) {
    // SAFETY: the caller's promise; the data is not touched.
    unsafe { libc::munlock(start, length) };
}
