//! What a power cut leaves behind: which of the unsynced sectors, lengths and names reached the medium.

/// A small generator of reproducible choices (splitmix64): the same seed gives the same crash image everywhere.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 if `bound` is 0).
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next_u64() % bound as u64) as usize }
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.next_u64() % 100 < u64::from(percent)
    }
}

/// One choice of what reached the medium. All of them are outcomes the durability contract of
/// [`Disk`](super::Disk) allows; a database must survive each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Crash {
    /// Nothing that was not synced: no byte, no length, no name.
    Nothing,
    /// Everything, as after the death of the process alone.
    Everything,
    /// Sectors with even numbers are new, odd ones old.
    EvenSectors,
    /// Sectors with odd numbers are new, even ones old.
    OddSectors,
    /// Every other run of eight sectors (4 KiB) is new.
    EvenPages,
    /// Everything but the second half of the last write.
    Torn,
    /// Lengths and names are new, no data is: grown parts read as zero.
    LengthWithoutData,
    /// Data is new as far as the old lengths go.
    DataWithoutLength,
    /// All data and lengths, but no created, renamed or removed name.
    NamesLost,
    /// All names, but neither data nor lengths.
    NamesOnly,
    /// Each sector written more than once has its first version, not its last.
    FirstVersions,
    /// Each sector, length and name for itself, by dice; the odds differ from file to file.
    Random(u64),
}

impl Crash {
    /// The named outcomes and `random` diced ones.
    pub fn variants(seed: u64, random: usize) -> Vec<Crash> {
        let mut all = vec![
            Crash::Nothing,
            Crash::Everything,
            Crash::EvenSectors,
            Crash::OddSectors,
            Crash::EvenPages,
            Crash::Torn,
            Crash::LengthWithoutData,
            Crash::DataWithoutLength,
            Crash::NamesLost,
            Crash::NamesOnly,
            Crash::FirstVersions,
        ];
        let mut rng = SplitMix64::new(seed);
        all.extend((0..random).map(|_| Crash::Random(rng.next_u64())));
        all
    }
}
