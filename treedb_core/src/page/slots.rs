//! Where readers say which transaction they see.
//!
//! A reader claims a slot by swapping the transaction's number into it and frees it by storing [`FREE`]: no lock,
//! and no cache line that all readers write. Slots are padded and each thread begins its search at a place of its
//! own. The writer reads all slots in use before it reuses pages.
//!
//! Why no page is reused under a reader: the reader stores its number and then looks again whether that
//! transaction is still the current one; the writer makes a new transaction current and then reads the slots. All
//! four are sequentially consistent, so at least one of the two sees the other.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

const FREE: u64 = u64::MAX;
/// Slots of a chunk; more readers than that at once make more chunks.
const CHUNK: usize = 64;

/// Two cache lines, because neighbouring lines are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU64);

#[derive(Debug)]
struct Chunk {
    slots: [Slot; CHUNK],
    /// One above the highest slot ever claimed, so that the writer need not read the rest.
    used: AtomicUsize,
    next: OnceLock<Box<Chunk>>,
}

impl Chunk {
    fn new() -> Chunk {
        Chunk {
            slots: [const { Slot(AtomicU64::new(FREE)) }; CHUNK],
            used: AtomicUsize::new(0),
            next: OnceLock::new(),
        }
    }
}

/// A claimed slot. It must be given back to [`Slots::release`] of the same slots.
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
}

fn words(root: &[u8; 16]) -> [u64; 2] {
    let n = u128::from_le_bytes(*root);
    [n as u64, (n >> 64) as u64]
}

fn bytes(words: [u64; 2]) -> [u8; 16] {
    (u128::from(words[0]) | u128::from(words[1]) << 64).to_le_bytes()
}

/// The current transaction, and the slots of those who look at it or at earlier ones.
#[derive(Debug)]
pub(crate) struct Slots {
    current: Current,
    first: Chunk,
}

thread_local! {
    static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Where this thread begins to look for a slot.
fn home() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
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
        Slots { current: Current { txn: AtomicU64::new(txn), roots }, first: Chunk::new() }
    }

    /// The current transaction.
    pub(crate) fn current(&self) -> u64 {
        self.current.txn.load(Ordering::SeqCst)
    }

    fn root_of(&self, txn: u64) -> [u64; 2] {
        let record = &self.current.roots[(txn % 2) as usize];
        let copy = [record[0].load(Ordering::Relaxed), record[1].load(Ordering::Relaxed)];
        // With the writer's release fence: if a word was of a later transaction, the look at `txn` that follows
        // sees that `txn` has moved on.
        fence(Ordering::Acquire);
        copy
    }

    /// Makes `txn` with `root` current. Only the writer calls it, with increasing numbers.
    pub(crate) fn publish(&self, txn: u64, root: &[u8; 16]) {
        fence(Ordering::Release);
        let record = &self.current.roots[(txn % 2) as usize];
        for (word, value) in record.iter().zip(words(root)) {
            word.store(value, Ordering::Relaxed);
        }
        self.current.txn.store(txn, Ordering::SeqCst);
    }

    /// Pins the current transaction.
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
            slot.0.store(txn, Ordering::SeqCst);
        }
    }

    fn claim(&self, txn: u64) -> (usize, &Slot) {
        let home = home();
        let mut chunk = &self.first;
        let mut base = 0;
        loop {
            for step in 0..CHUNK {
                let i = (home + step) % CHUNK;
                let slot = &chunk.slots[i];
                if slot.0.compare_exchange(FREE, txn, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                    if chunk.used.load(Ordering::Relaxed) <= i {
                        // Before the look at the current transaction that makes the pin count.
                        chunk.used.fetch_max(i + 1, Ordering::SeqCst);
                    }
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
    pub(crate) fn release(&self, pin: &Pin) {
        let mut chunk = &self.first;
        for _ in 0..pin.slot / CHUNK {
            match chunk.next.get() {
                Some(next) => chunk = next,
                None => return,
            }
        }
        chunk.slots[pin.slot % CHUNK].0.store(FREE, Ordering::Release);
    }

    /// Adds the transactions pinned now to `out`, unsorted. Call after `publish`.
    pub(crate) fn pinned(&self, out: &mut Vec<u64>) {
        fence(Ordering::SeqCst);
        let mut chunk = Some(&self.first);
        while let Some(c) = chunk {
            let used = c.used.load(Ordering::SeqCst).min(CHUNK);
            let pins = c.slots[..used].iter().map(|slot| slot.0.load(Ordering::SeqCst));
            out.extend(pins.filter(|&txn| txn != FREE));
            chunk = c.next.get().map(|b| &**b);
        }
    }
}
