//! Accounts of the kernel's cycles.

use std::fmt;

/// What a cycle is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// Page faults: first touches, and stores to shared pages.
    Fault,
    /// Clearing newly backed memory.
    Zero,
    /// Copying pages to build superpages, or at stores to shared pages.
    Copy,
    /// Changing page tables in place.
    Map,
    /// A policy's own work at TLB misses.
    Bookkeeping,
    /// Scanning page tables in the background.
    Scan,
    /// Dropping translations from TLBs.
    Flush,
    /// Moving other pages to free blocks.
    Compaction,
    /// Writing pages to swap and reading them back.
    Swap,
    /// Reading pages of files.
    File,
    /// Moving pages to other colors, and finding which.
    Recolor,
}

impl Account {
    /// All accounts.
    pub const ALL: [Account; 11] = [
        Account::Fault,
        Account::Zero,
        Account::Copy,
        Account::Map,
        Account::Bookkeeping,
        Account::Scan,
        Account::Flush,
        Account::Compaction,
        Account::Swap,
        Account::File,
        Account::Recolor,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Account::Fault => "fault",
            Account::Zero => "zero",
            Account::Copy => "copy",
            Account::Map => "map",
            Account::Bookkeeping => "bookkeeping",
            Account::Scan => "scan",
            Account::Flush => "flush",
            Account::Compaction => "compaction",
            Account::Swap => "swap",
            Account::File => "file",
            Account::Recolor => "recolor",
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Cycles by account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts([u64; Account::ALL.len()]);

impl Accounts {
    /// Cycles of one account.
    pub fn of(&self, account: Account) -> u64 {
        self.0[account as usize]
    }

    /// Cycles of all accounts.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, &cycles| sum.saturating_add(cycles))
    }

    pub(crate) fn charge(&mut self, account: Account, cycles: u64) {
        let sum = &mut self.0[account as usize];
        *sum = sum.saturating_add(cycles);
    }
}

impl std::ops::Add for Accounts {
    type Output = Accounts;

    fn add(mut self, other: Accounts) -> Accounts {
        Account::ALL.into_iter().for_each(|account| self.charge(account, other.of(account)));
        self
    }
}

/// Prices of the kernel's work, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelCosts {
    /// A page fault.
    pub fault: u64,
    /// Clearing 1 KiB.
    pub zero_per_kib: u64,
    /// Building a superpage elsewhere, per KiB of it.
    pub copy_per_kib: u64,
    /// Building a superpage elsewhere, per KiB of it that was backed before and is copied.
    pub copy_backed_per_kib: u64,
    /// Building a superpage in place.
    pub map: u64,
    /// Dropping a translation from the TLBs.
    pub flush: u64,
    /// Copying a page to a frame of another color, per KiB, without waits for memory.
    pub recolor_per_kib: u64,
    /// Changing the mapping of that page.
    pub recolor_map: u64,
}

impl KernelCosts {
    /// Romer 1998, section 3.5: 3,000 cycles per KB of a built superpage, including copying and cache misses; faults
    /// are the same under all policies and not counted. Moving a page to another color: table 5-1, 4,800 cycles of
    /// instructions for 8 KiB, and 200 for its mapping.
    pub const ROMER: KernelCosts = KernelCosts {
        fault: 0,
        zero_per_kib: 0,
        copy_per_kib: 3000,
        copy_backed_per_kib: 0,
        map: 0,
        flush: 0,
        recolor_per_kib: 600,
        recolor_map: 200,
    };

    /// A kernel on a current processor at about 3 GHz; all chosen. A fault without clearing: 0.7 µs. Clearing: 30 GB
    /// per second. Copying, which reads and writes: half of that. A change of a page table: 0.3 µs. Dropping a
    /// translation from all processors by interrupts: 1.3 µs. The copy to another color costs its waits for memory,
    /// which its machine's caches give.
    pub const TODAY: KernelCosts = KernelCosts {
        fault: 2000,
        zero_per_kib: 100,
        copy_per_kib: 0,
        copy_backed_per_kib: 200,
        map: 1000,
        flush: 4000,
        recolor_per_kib: 0,
        recolor_map: 1000,
    };
}
