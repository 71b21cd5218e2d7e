//! The reader table: in its slots, readers announce which transaction they see.
//!
//! A reader claims a slot by swapping the transaction's number into it and frees it by storing [`FREE`]: no lock,
//! and no cache line that all readers write. Slots are padded and each thread begins its search at a place of its
//! own. The writer reads all slots in use before it reuses pages.
//!
//! Why no page is reused under a reader: the reader stores its number and then looks again whether that
//! transaction is still the current one; the writer makes a new transaction current and then reads the slots. All
//! four are sequentially consistent, so at least one of the two sees the other.
//!
//! Readers look at no clock: beginning and ending a read is one atomic exchange and one store. The writer measures how
//! old a reader is, because it knows when it published what: a reader's age is the time for which the state it sees
//! has been out of date. The writer notes it in the slot when it first finds the reader lagging.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

const FREE: u64 = u64::MAX;
/// Slots of a chunk; more readers than that at once make more chunks.
const CHUNK: usize = 64;

/// Two cache lines, because neighbouring lines are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    txn: AtomicU64,
    /// The last transaction that the writer found here when it was not the current one any more, and when it had
    /// ceased to be. No reader can come to see that transaction after that, so the two belong to one reader.
    behind: AtomicU64,
    since: AtomicU64,
}

impl Slot {
    const fn new() -> Slot {
        Slot { txn: AtomicU64::new(FREE), behind: AtomicU64::new(FREE), since: AtomicU64::new(0) }
    }
}

/// Now, in milliseconds of a clock that never goes back and is read from memory, in a few nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    (time.tv_sec as u64).wrapping_mul(1000).wrapping_add(time.tv_nsec as u64 / 1_000_000)
}

/// A reader: a snapshot that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reader {
    /// The transaction it sees.
    pub txn: u64,
    /// How long what it sees has been out of date, to a few milliseconds: zero if nothing has been committed since.
    pub age: Duration,
}

#[derive(Debug)]
struct Chunk {
    slots: [Slot; CHUNK],
    /// One above the highest slot ever claimed, so that the writer need not read the rest.
    used: AtomicUsize,
    next: OnceLock<Box<Chunk>>,
}

impl Chunk {
    /// Claims slot `i` if it is free.
    #[inline]
    fn claim(&self, i: usize, txn: u64) -> Option<&Slot> {
        let slot = self.slots.get(i)?;
        slot.txn.compare_exchange(FREE, txn, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        if self.used.load(Ordering::Relaxed) <= i {
            // Before the look at the current transaction that makes the pin count.
            self.used.fetch_max(i + 1, Ordering::SeqCst);
        }
        Some(slot)
    }

    fn new() -> Chunk {
        Chunk { slots: [const { Slot::new() }; CHUNK], used: AtomicUsize::new(0), next: OnceLock::new() }
    }
}

/// A claimed slot. It must be given back to `Slots::release` of the same slots.
#[derive(Debug)]
#[must_use]
pub struct Pin {
    slot: usize,
    txn: u64,
    root: [u8; 16],
}

impl Pin {
    /// The transaction it sees.
    pub fn txn(&self) -> u64 {
        self.txn
    }

    /// The root as of that transaction.
    pub fn root(&self) -> &[u8; 16] {
        &self.root
    }
}

/// The current transaction and its root, readable without a lock. Two records take turns; a reader that copied
/// one finds the transaction unchanged afterwards or starts again.
#[derive(Debug)]
struct Current {
    txn: AtomicU64,
    roots: [[AtomicU64; 2]; 2],
    /// When it was published.
    at: AtomicU64,
}

fn words(root: &[u8; 16]) -> [u64; 2] {
    let n = u128::from_le_bytes(*root);
    [n as u64, (n >> 64) as u64]
}

fn bytes(words: [u64; 2]) -> [u8; 16] {
    (u128::from(words[0]) | u128::from(words[1]) << 64).to_le_bytes()
}

/// The current transaction, and the slots of those who read it or an earlier one.
#[derive(Debug)]
pub(crate) struct Slots {
    current: Current,
    first: Chunk,
}

thread_local! {
    static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Where this thread begins to look for a slot.
#[inline]
fn home() -> usize {
    static THREADS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    HOME.with(|home| {
        if home.get() == usize::MAX {
            home.set(THREADS.fetch_add(1, Ordering::Relaxed) % CHUNK);
        }
        home.get()
    })
}

impl Slots {
    pub(crate) fn new(txn: u64, root: &[u8; 16]) -> Slots {
        let record = words(root).map(AtomicU64::new);
        let other = [const { AtomicU64::new(0) }; 2];
        let roots = if txn.is_multiple_of(2) { [record, other] } else { [other, record] };
        Slots {
            current: Current { txn: AtomicU64::new(txn), roots, at: AtomicU64::new(now()) },
            first: Chunk::new(),
        }
    }

    /// The current transaction.
    pub(crate) fn current(&self) -> u64 {
        self.current.txn.load(Ordering::SeqCst)
    }

    #[inline]
    fn root_of(&self, txn: u64) -> [u64; 2] {
        let record = &self.current.roots[(txn % 2) as usize];
        let copy = [record[0].load(Ordering::Relaxed), record[1].load(Ordering::Relaxed)];
        // With the writer's release fence: if a word was of a later transaction, the look at `txn` that follows
        // sees that `txn` has moved on.
        fence(Ordering::Acquire);
        copy
    }

    /// Makes `txn` with `root` current. Only the writer calls it, with increasing numbers, even and odd in turn.
    pub(crate) fn publish(&self, txn: u64, root: &[u8; 16]) {
        fence(Ordering::Release);
        let record = &self.current.roots[(txn % 2) as usize];
        for (word, value) in record.iter().zip(words(root)) {
            word.store(value, Ordering::Relaxed);
        }
        self.current.at.store(now(), Ordering::Relaxed);
        self.current.txn.store(txn, Ordering::SeqCst);
    }

    /// Pins the current transaction.
    #[inline]
    pub(crate) fn pin(&self) -> Pin {
        let mut txn = self.current.txn.load(Ordering::Acquire);
        let (index, slot) = self.claim(txn);
        loop {
            let root = self.root_of(txn);
            let now = self.current.txn.load(Ordering::SeqCst);
            if now == txn {
                return Pin { slot: index, txn, root: bytes(root) };
            }
            txn = now;
            slot.txn.store(txn, Ordering::SeqCst);
        }
    }

    #[inline]
    fn claim(&self, txn: u64) -> (usize, &Slot) {
        let i = home() % CHUNK;
        match self.first.claim(i, txn) {
            Some(slot) => (i, slot),
            None => self.claim_any(txn),
        }
    }

    /// Claims a slot although this thread's own is taken: it has other pins, or there are many threads.
    #[cold]
    fn claim_any(&self, txn: u64) -> (usize, &Slot) {
        let home = home();
        let mut chunk = &self.first;
        let mut base = 0;
        loop {
            for step in 0..CHUNK {
                let i = (home + step) % CHUNK;
                if let Some(slot) = chunk.claim(i, txn) {
                    return (base + i, slot);
                }
            }
            chunk = chunk.next.get_or_init(|| Box::new(Chunk::new()));
            base += CHUNK;
            // The link, too, must be seen by a writer that this reader's look at the transaction misses.
            fence(Ordering::SeqCst);
        }
    }

    /// Gives a pin back.
    #[inline]
    pub(crate) fn release(&self, pin: &Pin) {
        let mut chunk = &self.first;
        for _ in 0..pin.slot / CHUNK {
            match chunk.next.get() {
                Some(next) => chunk = next,
                None => return,
            }
        }
        chunk.slots[pin.slot % CHUNK].txn.store(FREE, Ordering::Release);
    }

    /// Adds the transactions pinned now to `out`, unsorted. Call after `publish`.
    pub(crate) fn pinned(&self, out: &mut Vec<u64>) {
        self.each_claimed(|txn, _| out.push(txn));
    }

    /// Like [`Slots::pinned`], called by the writer when it begins; also marks the readers that are no longer
    /// current.
    pub(crate) fn survey(&self, out: &mut Vec<u64>) {
        let current = self.current();
        self.each_claimed(|txn, slot| {
            out.push(txn);
            if txn < current && slot.behind.load(Ordering::Relaxed) != txn {
                // The reader was current at the previous call, so it is behind since the last transaction was
                // published.
                slot.since.store(self.current.at.load(Ordering::Relaxed), Ordering::Relaxed);
                slot.behind.store(txn, Ordering::Release);
            }
        });
    }

    /// Who reads now, the oldest transaction first.
    pub(crate) fn readers(&self) -> Vec<Reader> {
        let (current, at) = (self.current(), self.current.at.load(Ordering::Relaxed));
        let now = now();
        let mut readers = Vec::new();
        self.each_claimed(|txn, slot| {
            let since = match slot.behind.load(Ordering::Acquire) == txn {
                true => slot.since.load(Ordering::Relaxed),
                false if txn < current => at,
                false => now,
            };
            readers.push(Reader { txn, age: Duration::from_millis(now.saturating_sub(since)) });
        });
        readers.sort_unstable_by_key(|reader| (reader.txn, std::cmp::Reverse(reader.age)));
        readers
    }

    fn each_claimed(&self, mut each: impl FnMut(u64, &Slot)) {
        fence(Ordering::SeqCst);
        let mut chunk = Some(&self.first);
        while let Some(c) = chunk {
            let used = c.used.load(Ordering::SeqCst).min(CHUNK);
            for slot in &c.slots[..used] {
                let txn = slot.txn.load(Ordering::SeqCst);
                if txn != FREE {
                    each(txn, slot);
                }
            }
            chunk = c.next.get().map(|b| &**b);
        }
    }
}
