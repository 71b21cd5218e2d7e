//! Building an index: a graph in memory, written page by page when the table has been read. When it outgrows
//! `maintenance_work_mem`, the vectors go into a temporary file, if the graph is built by codes of them ([`super::spilled`]); when what is
//! left outgrows it too, the graph is written as it is, and the rest of the rows is inserted into the pages, which are logged when the
//! last row is in. Where all rows were in the graph, pages are logged as they are written.
//!
//! Threads of the backend build the graph: they read memory and call nothing of the server.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pgrx::{check_for_interrupts, pg_sys};
use treedb_vector::centre::Centre;
use treedb_vector::code::Coded;
use treedb_vector::graph::{Link, Nodes, NodesMut};
use treedb_vector::kernel::Kernels;
use treedb_vector::memory::{Builder, Host, MemoryGraph};
use treedb_vector::neighbour::{Form, Rotation};

use super::centre::{self, Sample};
use super::kind::{Element, Kind};
use super::meta::{Choice, Meta};
use super::record::{self, Layout, LinkCode, Place, Slots, above, node};
use super::spilled::{Fetched, SpilledVectors};
use super::value;
use super::writer::{Writer, init_page, put};
use crate::shim::buffer::{Fork, NewPages, Page};
use crate::shim::error::{SqlState, corrupted, fail};
use crate::shim::index_build::{
    Build, IndexRow, maintenance_memory, report_entries, report_loaded, report_phase,
};
use crate::shim::relation::Index;
use crate::shim::thread;
use crate::shim::vector_options::{MOST_HALVES, VectorOptions};
use crate::shim::wal;

/// Numbers of the phases for `pg_stat_progress_create_index`; 1 is the server's own "initializing".
pub(super) mod phase {
    pub(crate) const GRAPH: i64 = 2;
    pub(crate) const PAGES: i64 = 3;
}

/// After so many rows the memory of the graph is measured again.
const MEASURED: usize = 512;

/// What an index declares.
fn declared(index: Index<'_>) -> Meta {
    let kind = Kind::of(index);
    let VectorOptions { m, ef_construction, dimensions: option, .. } = VectorOptions::of(index);
    let typed = index.modifier(0).filter(|_| kind.element != Element::Real);
    let dimensions = match typed {
        Some(typed) if option != 0 && option != typed => fail(
            SqlState::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("the column has {typed} dimensions, the storage parameter says {option}"),
            "Leave the storage parameter \"dimensions\" out.",
        ),
        Some(typed) => typed,
        None => option,
    };
    if dimensions == 0 {
        fail(
            SqlState::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("index \"{}\" must know how many dimensions its vectors have", index.shown()),
            "Say so in CREATE INDEX: WITH (dimensions = 384).",
        );
    }
    let most = kind.most_dimensions();
    if dimensions > most {
        fail(
            SqlState::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("a column with {dimensions} dimensions cannot be indexed"),
            match kind.element {
                Element::Bit => format!("At most {most} bits can be indexed."),
                Element::Half => {
                    format!("Vectors of type halfvec of at most {most} dimensions can be indexed.")
                }
                Element::Real | Element::Vector if dimensions <= MOST_HALVES => format!(
                    "Vectors of at most {most} dimensions can be indexed, of pgvector's type halfvec {MOST_HALVES}: index (v::halfvec({dimensions})), and order by the distance of that."
                ),
                Element::Real | Element::Vector => {
                    format!(
                        "Vectors of at most {most} dimensions can be indexed, of pgvector's type halfvec {MOST_HALVES}."
                    )
                }
            },
        );
    }
    Meta::new(kind, dimensions as usize, m as usize, ef_construction as usize)
}

/// The backend that threads build a graph in.
#[derive(Debug)]
struct Backend;

impl Host for Backend {
    fn start(&mut self, start: &mut dyn FnMut()) {
        thread::start_without_signals(start);
    }

    fn is_interrupted(&mut self) -> bool {
        thread::is_interrupted()
    }

    fn interrupt(&mut self) {
        check_for_interrupts!();
    }
}

/// A graph that is built in memory, and the rows of its nodes.
struct Collecting {
    builder: Builder<Backend>,
    rows: Vec<pg_sys::ItemPointerData>,
    /// The vectors, if the graph does not have them any more.
    spilled: Option<SpilledVectors>,
    threads: usize,
    /// What codes are about, those of the graph if it has any.
    centre: Option<Arc<Centre>>,
}

impl Collecting {
    /// For the vectors of a table, of which there is a sample.
    fn new(meta: &Meta, threads: usize, sample: &Sample) -> Collecting {
        let centre = sample.centre().map(Arc::new);
        let mut graph = MemoryGraph::new(meta.kind.metric, meta.dimensions, meta.limits());
        if meta.layout().builds_exactly() || (centre.is_none() && sample.are_alike()) {
            graph = graph.exact();
        }
        if let Some(centre) = &centre {
            graph.set_centre(centre.clone());
        }
        let builder = Builder::new(graph, threads, Backend);
        Collecting { builder, rows: Vec::new(), spilled: None, threads, centre }
    }

    fn add(&mut self, row: pg_sys::ItemPointerData, vector: &[f32]) {
        // `each_indexable` has checked the vector.
        if self.builder.add(vector).is_ok() {
            self.rows.push(row);
            self.spilled.iter_mut().for_each(|spilled| spilled.push(vector));
        }
    }

    /// Puts the vectors into a temporary file; false if they are there already, or if the graph is built by them.
    fn spill(&mut self, dimensions: usize) -> bool {
        let graph = self.builder.graph();
        if self.spilled.is_some() || !graph.can_forget_vectors() {
            return false;
        }
        let mut spilled = SpilledVectors::create(dimensions);
        for node in 0..graph.len() as u32 {
            check_for_interrupts!();
            spilled.push(graph.vector(node));
        }
        self.builder.forget_vectors();
        self.spilled = Some(spilled);
        true
    }

    fn is_full(&self) -> bool {
        let graph = self.builder.graph();
        let bytes = graph.bytes() + self.rows.len() * size_of::<pg_sys::ItemPointerData>();
        bytes > maintenance_memory() || graph.is_full()
    }

    fn finish(self) -> Collected {
        let Collecting { builder, rows, spilled, threads, centre } = self;
        Collected { graph: builder.finish(), rows, spilled, threads, centre }
    }
}

/// A graph in memory, and the rows of its nodes.
struct Collected {
    graph: MemoryGraph,
    rows: Vec<pg_sys::ItemPointerData>,
    /// See [`Collecting::spilled`].
    spilled: Option<SpilledVectors>,
    /// Threads that write its slots, the calling one among them.
    threads: usize,
    /// See [`Collecting::centre`].
    centre: Option<Arc<Centre>>,
}

/// Writes the slots of one kind to new pages; remembers the last one if it has free slots.
struct Pages<'i, 'm> {
    layout: Layout,
    slots: Slots,
    meta: &'m mut Meta,
    page: Vec<Vec<u8>>,
    new: NewPages<'i>,
    logged: &'m mut Logged<'i>,
}

/// How many of the pages that are written one after another have been logged. That is done while other threads make what is written next.
struct Logged<'i> {
    index: Index<'i>,
    /// The first block that has not been.
    next: u32,
    /// They stay as they are written.
    are_final: bool,
}

impl Logged<'_> {
    /// This page has been written, and all before it.
    fn written(&mut self, block: u32) {
        if self.are_final && block + 1 - self.next >= wal::PAGES {
            wal::log_pages(self.index, self.next..block + 1);
            self.next = block + 1;
        }
    }
}

impl<'i, 'm> Pages<'i, 'm> {
    /// For so many slots.
    fn new(slots: Slots, count: usize, meta: &'m mut Meta, logged: &'m mut Logged<'i>) -> Self {
        let layout = meta.layout();
        let new = NewPages::new(logged.index, count.div_ceil(layout.per_page(slots)));
        Pages { layout, slots, meta, page: Vec::new(), new, logged }
    }

    fn add(&mut self, slot: Vec<u8>) {
        self.page.push(slot);
        if self.page.len() == self.layout.per_page(self.slots) {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.page.is_empty() {
            return;
        }
        check_for_interrupts!();
        let mut page = self.new.add();
        let block = page.block();
        let has_room = self.page.len() < self.layout.per_page(self.slots);
        if has_room {
            self.meta.set_room(self.slots, block);
        }
        let bytes = page.bytes_mut();
        init_page(&self.layout, self.slots, bytes, has_room.then_some(block));
        for (number, slot) in self.page.drain(..).enumerate() {
            put(bytes, self.layout.offset(self.slots, number as u16), &slot);
        }
        drop(page);
        self.logged.written(block);
    }
}

/// Ends the work of other threads if this one panics: an error is reported when they have ended.
struct EndOnPanic<'a> {
    /// The part that is made next.
    next: &'a AtomicUsize,
    end: usize,
}

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.next.store(self.end, Ordering::Relaxed);
        }
    }
}

/// Does parts of some work on so many threads, each of which takes one part after another; the calling thread does `meanwhile`, then it takes
/// part. It calls nothing of the server but in `meanwhile`.
fn divide<R: Send>(
    threads: usize,
    parts: usize,
    work: impl Fn(&dyn Fn() -> Option<usize>) -> R + Sync,
    meanwhile: impl FnOnce(),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|part| *part < parts);
    let work = || work(&take);
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        if threads.min(parts) > 1 {
            thread::start_without_signals(&mut || {
                // Where no more threads can be started, those that there are do it.
                let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
                others.extend((1..threads.min(parts)).filter_map(start));
            });
        }
        let others_end = EndOnPanic { next: &next, end: parts };
        meanwhile();
        let mut done = vec![work()];
        drop(others_end);
        for thread in others {
            match thread.join() {
                Ok(other) => done.push(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

/// The vectors of a graph as codes of links need them.
struct Prepared<'g> {
    graph: &'g MemoryGraph,
    form: Form,
    rotation: &'g Rotation,
    centre: Option<&'g Centre>,
    /// Those that need work, one after another; none if there is no memory for them.
    all: Vec<f32>,
}

impl<'g> Prepared<'g> {
    fn new(
        graph: &'g MemoryGraph,
        form: Form,
        (rotation, centre): (&'g Rotation, Option<&'g Centre>),
        is_spilled: bool,
        threads: usize,
    ) -> Self {
        let mut prepared = Prepared { graph, form, rotation, centre, all: Vec::new() };
        let count = graph.len() * form.dimensions;
        if !is_spilled && form.of_units && graph.bytes() + size_of::<f32>() * count <= maintenance_memory() {
            let mut all = vec![0.0; count];
            for (at, block) in all.chunks_mut(PREPARED * form.dimensions).enumerate() {
                check_for_interrupts!();
                let parts: Vec<_> = block.chunks_mut(SLOTS * form.dimensions).map(Mutex::new).collect();
                let prepare = |take: &dyn Fn() -> Option<usize>| {
                    let mut vector = Vec::with_capacity(form.dimensions);
                    while let Some(part) = take() {
                        let Some(Ok(mut places)) = parts.get(part).map(Mutex::lock) else { return };
                        let first = at * PREPARED + part * SLOTS;
                        for (node, place) in (first as u32..).zip(places.chunks_exact_mut(form.dimensions)) {
                            vector.clear();
                            prepared.append(node, graph.vector(node), &mut vector);
                            place.copy_from_slice(&vector);
                        }
                    }
                };
                divide(threads, parts.len(), prepare, || ());
            }
            prepared.all = all;
        }
        prepared
    }

    /// Appends what is prepared of the vector of a node.
    fn append(&self, node: u32, vector: &[f32], out: &mut Vec<f32>) {
        if !self.form.of_units {
            out.extend_from_slice(vector);
            return;
        }
        let (at, unit) = (out.len(), self.graph.unit(node));
        // As [`Layout::vector`] reads it.
        out.extend(vector.iter().map(|element| element * unit));
        record::prepare(self.form, self.rotation, self.centre, out.get_mut(at..).unwrap_or_default());
    }

    /// The vector of a node.
    fn vector(&self, node: u32) -> Cow<'_, [f32]> {
        if !self.form.of_units {
            return Cow::Borrowed(self.graph.vector(node));
        }
        let from = node as usize * self.form.dimensions;
        match self.all.get(from..from + self.form.dimensions) {
            Some(vector) => Cow::Borrowed(vector),
            None => {
                let mut vector = Vec::with_capacity(self.form.dimensions);
                self.append(node, self.graph.vector(node), &mut vector);
                Cow::Owned(vector)
            }
        }
    }
}

/// Nodes whose slots are made at a time: some hundredths of a second's work, against which starting a thread is little.
const SLOTS: usize = 1024;
/// Nodes whose vectors are prepared between two looks at whether the build is to end.
const PREPARED: usize = 16 * SLOTS;
/// Nodes that a thread makes the slots of at a time.
const PART: usize = 8;
/// As many as [`SLOTS`], of nodes whose vectors are fetched for it, and those of all that they are linked to: some megabytes.
const FETCHED: usize = 128;

/// What makes the slots of nodes. It calls nothing of the server.
struct NodeSlots<'g> {
    graph: &'g MemoryGraph,
    rows: &'g [pg_sys::ItemPointerData],
    threads: usize,
    layout: Layout,
    kernels: Kernels,
    rotation: &'g Rotation,
    /// What the codes of the graph are about.
    graph_centre: Option<&'g Centre>,
    /// What those of the pages are about, if the graph, which goes by the vectors, has others.
    page_centre: Option<&'g Centre>,
    prepared: Option<Prepared<'g>>,
    /// The vectors that slots are made of now, if the graph does not have them.
    fetched: Option<Fetched>,
    /// Blocks where vectors and links above level 0 begin.
    vectors_from: u32,
    above_from: u32,
}

/// What a thread needs that makes slots.
#[derive(Default)]
struct Work {
    links: Vec<Link<u32>>,
    difference: Vec<f32>,
    codes: Vec<u8>,
}

impl NodeSlots<'_> {
    /// The place of slot number `at` of one kind, which begins at a block.
    fn place(&self, slots: Slots, from: u32, at: usize) -> Place {
        let per_page = self.layout.per_page(slots);
        Place { block: from + (at / per_page) as u32, slot: (at % per_page) as u16 }
    }

    /// The number that a node of the graph has in the index.
    fn number(&self, node: u32) -> u32 {
        self.layout.node(self.place(Slots::Nodes, 1, node as usize)).unwrap_or(0)
    }

    /// The score of a link, as the pages have it: where nodes have their vectors, that of these.
    fn score(&self, score: f32) -> f32 {
        match self.graph_centre.filter(|_| self.layout.exact) {
            Some(centre) => centre::metric_score(self.layout.metric, centre, score),
            None => score,
        }
    }

    /// The score of two vectors that are prepared.
    fn prepared_score(&self, prepared: &Prepared<'_>, a: &[f32], b: &[f32]) -> f32 {
        let metric = self.layout.metric;
        match prepared.centre.filter(|_| prepared.form.of_units) {
            // They are differences from it.
            Some(centre) => centre::metric_score(
                metric,
                centre,
                Centre::scores_of(metric).score(&self.kernels, a, b, 1.0),
            ),
            None => metric.score(&self.kernels, a, b, 1.0),
        }
    }

    /// The vector of a node.
    fn vector(&self, node: u32) -> &[f32] {
        match &self.fetched {
            Some(fetched) => fetched.vector(node),
            None => self.graph.vector(node),
        }
    }

    /// The same as codes of links need it.
    fn prepared_vector<'a>(&'a self, prepared: &'a Prepared<'_>, node: u32) -> Cow<'a, [f32]> {
        match &self.fetched {
            Some(fetched) => Cow::Borrowed(fetched.prepared(node)),
            None => prepared.vector(node),
        }
    }

    /// Fetches the vectors that the slots of nodes are made of.
    fn fetch(&mut self, spilled: &mut SpilledVectors, from: u32, to: u32) {
        let (mut others, mut links) = (Vec::new(), Vec::new());
        if self.prepared.is_some() {
            for node in from..to {
                let Ok(()) = self.graph.links(node, 0, &mut links);
                others.append(&mut links);
            }
        }
        let prepared = self.prepared.as_ref();
        let prepare = prepared.map(|prepared| {
            move |node: u32, vector: &[f32], out: &mut Vec<f32>| prepared.append(node, vector, out)
        });
        self.fetched.get_or_insert_default().fetch(spilled, (from, to), &mut others, prepare);
    }

    /// The slot of a node; `above` nodes before it are above level 0, counted once for each level.
    fn node(&self, node: u32, above: usize, work: &mut Work) -> Vec<u8> {
        let (graph, layout) = (self.graph, &self.layout);
        let Ok(level) = graph.level(node);
        let above = (level > 0).then(|| self.place(Slots::Above, self.above_from, above));
        let vector = match layout.exact {
            true => Place::default(),
            false => self.place(Slots::Vectors, self.vectors_from, node as usize),
        };
        let Work { links, difference, codes } = work;
        let Ok(()) = graph.scored_links(node, 0, links);
        let row = self.rows.get(node as usize).copied().unwrap_or_default();
        let mut slot = Vec::with_capacity(layout.size(Slots::Nodes));
        slot.extend_from_slice(&record::node_bytes(row, level, vector, above));
        put(&mut slot, node::COUNT, &(links.len() as u32).to_le_bytes());
        let own = self.prepared.as_ref().map(|prepared| (prepared, self.prepared_vector(prepared, node)));
        for link in &*links {
            let node = self.number(link.node);
            let Some((prepared, own)) = &own else {
                record::push_link(&Link { node, score: self.score(link.score) }, &mut slot);
                if let Some(LinkCode::Bits(_)) = layout.code {
                    slot.extend_from_slice(graph.coded(link.node).codes);
                }
                continue;
            };
            // A rotation keeps scores, but for the last bits.
            let other = self.prepared_vector(prepared, link.node);
            let score = self.prepared_score(prepared, own, &other);
            record::push_link(&Link { node, score }, &mut slot);
            prepared.form.code_of(&self.kernels, self.rotation, &other, own, difference, &mut slot);
        }
        slot.resize(layout.body_at(), 0);
        let (vector, unit) = (self.vector(node), graph.unit(node));
        let coded = match self.page_centre {
            Some(centre) => {
                codes.resize(vector.len(), 0);
                let factors = centre.encode(vector, unit, difference, codes);
                Coded { factors, codes }
            }
            None => graph.coded(node),
        };
        slot.extend_from_slice(&layout.body(vector, unit, coded));
        slot
    }

    /// The slots of nodes, each with what [`NodeSlots::node`] wants to know, in order. The calling thread does `meanwhile`, then it takes part.
    fn nodes(&self, nodes: &[(u32, usize)], meanwhile: impl FnOnce()) -> Vec<Vec<u8>> {
        let parts: Vec<&[(u32, usize)]> = nodes.chunks(PART).collect();
        let make = |take: &dyn Fn() -> Option<usize>| {
            let (mut made, mut work) = (Vec::new(), Work::default());
            while let Some(part) = take().and_then(|at| parts.get(at)) {
                made.extend(part.iter().map(|(node, above)| (*node, self.node(*node, *above, &mut work))));
            }
            made
        };
        let mut slots: Vec<_> =
            divide(self.threads, parts.len(), make, meanwhile).into_iter().flatten().collect();
        slots.sort_unstable_by_key(|(node, _)| *node);
        slots.into_iter().map(|(_, slot)| slot).collect()
    }
}

/// Writes an index with the nodes of a graph in memory. Blocks 1 and following have the nodes in their order; the
/// vectors come next, then the links above level 0.
fn write(meta: &mut Meta, collected: Collected, logged: &mut Logged<'_>) {
    let index = logged.index;
    let Collected { graph, rows, mut spilled, threads, centre } = collected;
    let (graph, rows) = (&graph, rows.as_slice());
    let layout = meta.layout();
    let pages = |count: usize, slots: Slots| count.div_ceil(layout.per_page(slots)) as u32;
    let vectors_from = 1 + pages(rows.len(), Slots::Nodes);
    let vectors = if layout.exact { 0 } else { rows.len() };
    let above_from = vectors_from + pages(vectors, Slots::Vectors);
    let (kernels, rotation) = (Kernels::best(), Rotation::new(layout.dimensions));
    // The graph may have had one to be built by only.
    let kept_centre = centre.filter(|_| layout.may_have_centre());
    let prepared = match layout.code {
        Some(LinkCode::Estimate(form)) => {
            let by = (&rotation, kept_centre.as_deref());
            Some(Prepared::new(graph, form, by, spilled.is_some(), threads))
        }
        _ => None,
    };
    let rotation = &rotation;
    let mut slots = NodeSlots {
        graph,
        rows,
        threads,
        layout,
        kernels,
        rotation,
        graph_centre: graph.centre().map(Arc::as_ref),
        page_centre: kept_centre.as_deref().filter(|_| graph.centre().is_none() && !layout.exact),
        prepared,
        fetched: None,
        vectors_from,
        above_from,
    };

    drop(Page::extend(index, Fork::Main));
    let mut above_count = 0;
    let mut out = Pages::new(Slots::Nodes, rows.len(), meta, logged);
    // A node without its vector needs no other one's either.
    let needs_vectors = layout.exact;
    let at_once = if spilled.is_some() && needs_vectors { FETCHED } else { SLOTS };
    // Those that are made are written while other threads make the next ones.
    let mut made = Vec::new();
    let mut nodes = Vec::with_capacity(at_once);
    for from in (0..rows.len()).step_by(at_once) {
        let (from, to) = (from as u32, rows.len().min(from + at_once) as u32);
        nodes.clear();
        for node in from..to {
            let Ok(level) = graph.level(node);
            nodes.push((node, above_count));
            above_count += usize::from(level);
        }
        if let Some(spilled) = spilled.as_mut().filter(|_| needs_vectors) {
            slots.fetch(spilled, from, to);
        }
        let before = std::mem::take(&mut made);
        made = slots.nodes(&nodes, || before.into_iter().for_each(|slot| out.add(slot)));
    }
    made.into_iter().for_each(|slot| out.add(slot));
    out.write();
    drop(out);
    let mut out = Pages::new(Slots::Vectors, vectors, meta, logged);
    let mut vector = Vec::new();
    for (node, row) in (0..).zip(rows).take(vectors) {
        out.add(match &mut spilled {
            Some(spilled) => {
                spilled.read(node, &mut vector);
                layout.vector_bytes(*row, &vector)
            }
            None => layout.vector_bytes(*row, graph.vector(node)),
        });
    }
    out.write();
    drop(out);
    let mut out = Pages::new(Slots::Above, above_count, meta, logged);
    let (mut at, mut links) = (0, Vec::new());
    for node in 0..rows.len() as u32 {
        let Ok(top) = graph.level(node);
        for level in 1..=top {
            at += 1;
            let next = (level < top).then(|| slots.place(Slots::Above, above_from, at));
            let mut slot = record::above_slot_bytes(slots.number(node), next);
            let Ok(()) = graph.scored_links(node, level, &mut links);
            put(&mut slot, above::COUNT, &(links.len() as u32).to_le_bytes());
            for Link { node, score } in &links {
                let link = Link { node: slots.number(*node), score: slots.score(*score) };
                record::push_link(&link, &mut slot);
            }
            out.add(slot);
        }
    }
    out.write();
    drop(out);
    let Ok(entry) = graph.entry();
    let Ok(root) = graph.root();
    meta.entry = entry.map(|(node, level)| (slots.number(node), level));
    meta.root = root.map(|node| slots.number(node));
    if meta.choice != Choice::Made {
        meta.choice = Choice::after(rows.len());
    }
    if let Some(centre) = &kept_centre {
        pgrx::debug1!(
            "the vectors of index \"{}\" are much alike: their codes are about a centre",
            index.shown()
        );
        let mut page = Page::extend(index, Fork::Main);
        meta.set_centre(page.block(), Choice::Made);
        centre::init_page(page.bytes_mut(), centre);
    }
    let mut page = Page::overwrite(index, 0);
    meta.init(page.bytes_mut());
}

/// Where the rows of a build go.
struct Target<'i> {
    index: Index<'i>,
    meta: Meta,
    /// Until the graph has outgrown its memory.
    collecting: Option<Collecting>,
    writer: Option<Writer<'i>>,
    count: u64,
    /// Those of a row.
    vectors: Vec<f32>,
    logged: Logged<'i>,
}

impl Target<'_> {
    fn add(&mut self, row: &IndexRow<'_>) {
        let Some(value) = row.value(0) else { return };
        let Meta { kind, dimensions, .. } = self.meta;
        let mut position = 0;
        let mut all = std::mem::take(&mut self.vectors);
        value::each_indexable(kind, dimensions, value.bytes(), &mut all, |vector, unit| {
            self.add_vector(row.tid(), position, vector, unit);
            position += 1;
        });
        self.vectors = all;
    }

    fn add_vector(&mut self, row: pg_sys::ItemPointerData, position: u32, vector: &[f32], unit: f32) {
        check_for_interrupts!();
        self.count += 1;
        report_loaded(self.count);
        if let Some(collecting) = &mut self.collecting {
            collecting.add(row, vector);
            if !collecting.rows.len().is_multiple_of(MEASURED) || !collecting.is_full() {
                return;
            }
            if collecting.spill(self.meta.dimensions) {
                pgrx::debug1!(
                    "the vectors of index \"{}\" are in a temporary file since the graph has outgrown maintenance_work_mem after {} vectors",
                    self.index.shown(),
                    self.count
                );
            } else {
                pgrx::notice!(
                    "the graph of index \"{}\" no longer fits into maintenance_work_mem after {} vectors; the rest is inserted page by page",
                    self.index.shown(),
                    self.count
                );
                self.write(false);
                self.writer = Some(Writer::of_build(self.index));
            }
        } else if let Some(writer) = &mut self.writer {
            writer.insert(row, position, vector, unit);
        }
    }

    /// Writes what was collected; `are_all` tells that nothing else will be written.
    fn write(&mut self, are_all: bool) {
        if let Some(collecting) = self.collecting.take() {
            let collected = collecting.finish();
            report_phase(phase::PAGES);
            self.logged.are_final = are_all;
            write(&mut self.meta, collected, &mut self.logged);
        }
    }
}

/// Fills a new index; returns how many entries it has.
pub(super) fn build(build: &mut Build<'_>) -> u64 {
    let index = build.index();
    if index.blocks() != 0 {
        corrupted(&index.shown(), 0, "expected an empty relation to build an index in, found pages");
    }
    let meta = declared(index);
    let collecting = Some(Collecting::new(&meta, build.threads(), &Sample::of_build(build, &meta)));
    // The meta page is written last.
    let logged = Logged { index, next: 1, are_final: false };
    let mut target = Target { index, meta, collecting, writer: None, count: 0, vectors: Vec::new(), logged };
    report_phase(phase::GRAPH);
    build.scan(|row| target.add(row));
    report_entries(build.rows());
    target.write(true);
    if let Some(writer) = target.writer.take() {
        writer.end_build(target.count as usize);
    }
    wal::log_pages(index, 0..1);
    wal::log_pages(index, target.logged.next..index.blocks());
    target.count
}

/// Makes the initial fork of an unlogged index, which a crash resets it to.
pub(super) fn build_empty(index: Index<'_>) {
    let mut page = Page::extend(index, Fork::Init);
    declared(index).init(page.bytes_mut());
    page.log();
}
