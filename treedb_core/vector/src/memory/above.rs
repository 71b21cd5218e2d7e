//! The links above level 0, of the few nodes that have any.
//!
//! A node's levels are a chain of records: number of links, number of the record of the next level (0 for none), links.

use super::records::Records;

/// Numbers of a record before the links.
const LINKS: usize = 2;

/// The chains.
#[derive(Debug, Clone)]
pub(super) struct Above {
    pub(super) records: Records<u32>,
    pub(super) free: Vec<u32>,
}

impl Above {
    /// Chains of levels with at most so many links.
    pub(super) fn new(links: usize) -> Above {
        let mut records = Records::new(LINKS + links);
        // Number 0 says that there is none.
        records.push();
        Above { records, free: Vec::new() }
    }

    /// A chain of so many levels without links; its number, 0 for none.
    pub(super) fn chain(&mut self, levels: u8) -> u32 {
        let mut first = 0;
        for _ in 0..levels {
            let number = self.free.pop().unwrap_or_else(|| {
                self.records.push();
                self.records.count() as u32 - 1
            });
            if let [count, next, ..] = self.records.get_mut(number) {
                (*count, *next) = (0, first);
            }
            first = number;
        }
        first
    }

    /// Frees a chain.
    pub(super) fn give_back(&mut self, chain: u32) {
        let (mut number, mut left) = (chain, self.levels(chain));
        // The levels of a file that was made by somebody else may lead in a circle.
        while number != 0 && left > 0 {
            self.free.push(number);
            (number, left) = (self.next(number), left - 1);
        }
    }

    fn next(&self, number: u32) -> u32 {
        self.records.get(number).get(1).copied().unwrap_or(0)
    }

    /// The levels of a chain.
    pub(super) fn levels(&self, chain: u32) -> u8 {
        let (mut levels, mut number) = (0, chain);
        while number != 0 && levels < u8::MAX {
            levels += 1;
            number = self.next(number);
        }
        levels
    }

    /// The record of a level, from 1 on; 0 if the chain ends before.
    fn at(&self, chain: u32, level: u8) -> u32 {
        (1..level).fold(chain, |number, _| self.next(number))
    }

    /// The links in a level, from 1 on.
    pub(super) fn links(&self, chain: u32, level: u8) -> &[u32] {
        match self.records.get(self.at(chain, level)) {
            [count, _, links @ ..] => links.get(..*count as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// Replaces them.
    pub(super) fn set_links(&mut self, chain: u32, level: u8, links: impl ExactSizeIterator<Item = u32>) {
        let number = self.at(chain, level);
        if number != 0
            && let [count, _, places @ ..] = self.records.get_mut(number)
        {
            *count = links.len().min(places.len()) as u32;
            places.iter_mut().zip(links).for_each(|(place, link)| *place = link);
        }
    }

    /// Takes a link away, and adds one.
    pub(super) fn change_link(&mut self, chain: u32, level: u8, gone: Option<u32>, new: Option<u32>) {
        let number = self.at(chain, level);
        if number != 0
            && let [count, _, places @ ..] = self.records.get_mut(number)
        {
            let links = places.get(..*count as usize).unwrap_or(&[]);
            if let Some(at) = gone.and_then(|gone| links.iter().position(|link| *link == gone)) {
                take(places, at, *count as usize);
                *count -= 1;
            }
            if let Some(new) = new
                && put(places, *count as usize, *count as usize, new)
            {
                *count += 1;
            }
        }
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.records.bytes() + 4 * self.free.capacity()
    }

    /// Bytes that the levels of so many nodes take on average: one in `links` nodes is above each level.
    pub(super) fn bytes_of(&self, nodes: usize) -> usize {
        self.records.bytes_of(self.count_of(nodes))
    }

    /// The same while all are in a file.
    pub(super) fn bytes_of_mapped(&self, nodes: usize) -> usize {
        self.records.bytes_of_mapped(self.count_of(nodes))
    }

    /// How many levels so many nodes have on average, with number 0.
    fn count_of(&self, nodes: usize) -> usize {
        let links = self.records.len().saturating_sub(LINKS);
        1 + nodes.div_ceil(links.saturating_sub(1).max(1))
    }

    /// Bytes that they take besides those that they share with `other`.
    pub(super) fn bytes_beside(&self, other: &Above) -> usize {
        self.records.bytes_beside(&other.records) + 4 * self.free.capacity()
    }

    /// How many levels there are, used or free, and number 0.
    pub(super) fn count(&self) -> usize {
        self.records.count()
    }
}

/// Takes an element out of the first `count`; those after it move up.
pub(super) fn take<T: Copy>(places: &mut [T], at: usize, count: usize) {
    if at < count && count <= places.len() {
        places.copy_within(at + 1..count, at);
    }
}

/// Puts an element among the first `count`; those after it move down. False if there is no room.
pub(super) fn put<T: Copy>(places: &mut [T], at: usize, count: usize, element: T) -> bool {
    if at > count || count >= places.len() {
        return false;
    }
    places.copy_within(at..count, at + 1);
    if let Some(place) = places.get_mut(at) {
        *place = element;
    }
    true
}
