//! Keeps some of the machine's memory free: a volume that is too big for it is full, not fatal.

use std::fs;

/// How much may be taken between two looks at the machine's memory.
const STEP_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
pub struct MemoryGuard {
    reserve_bytes: u64,
    /// What may still be taken before the next look.
    budget_bytes: u64,
}

impl MemoryGuard {
    pub fn new(reserve_bytes: u64) -> Self {
        Self {
            reserve_bytes,
            budget_bytes: 0,
        }
    }

    /// Whether so many bytes more may be taken.
    pub fn may_take(&mut self, bytes: u64) -> bool {
        if bytes > self.budget_bytes {
            let free = available_bytes().map_or(STEP_BYTES, |available| {
                available.saturating_sub(self.reserve_bytes).min(STEP_BYTES)
            });
            self.budget_bytes = free;
        }
        let allowed = bytes <= self.budget_bytes;
        if allowed {
            self.budget_bytes -= bytes;
        }
        allowed
    }
}

/// What the kernel says can be had without swapping; `None` where it does not say.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_refuses_what_would_eat_the_reserve() {
        assert!(MemoryGuard::new(0).may_take(4096));
        assert!(!MemoryGuard::new(u64::MAX).may_take(4096));
        assert!(MemoryGuard::new(u64::MAX).may_take(0));
    }
}
