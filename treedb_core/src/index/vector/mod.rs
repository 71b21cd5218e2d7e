//! Graphs: vectors to their nearest rows. Not built yet.
