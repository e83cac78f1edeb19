//! Settings of a process that is pagewalk alone. A library in another program leaves them.

/// Blocks from this size on are mapped alone.
const LARGE_BYTES: i32 = 1 << 20;

/// Makes the settings. Call it before the process has other threads.
pub fn settle() {
    return_large_blocks();
    pagewalk_units::inheritance::keep_broken_pipes();
}

/// Lets large blocks go back to the system when they are freed. By default, the C library keeps blocks smaller than the
/// largest freed so far, up to 32 MB.
fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` sets a number of the allocator, and reads no memory of the caller's. There is one thread. If it
    // fails, the default stays.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}
