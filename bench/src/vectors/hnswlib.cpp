// hnswlib behind four C functions, for `hnswlib.rs`. Every function returns 0 or null if hnswlib throws.

#include <cstddef>
#include <cstdint>

#include <hnswlib/hnswlib.h>

namespace {

struct Index {
    hnswlib::InnerProductSpace space;
    hnswlib::HierarchicalNSW<float> graph;

    Index(size_t dimensions, size_t rows, size_t links, size_t candidates)
        : space(dimensions), graph(&space, rows, links, candidates) {}
};

}  // namespace

extern "C" {

/// An index of `rows` vectors, one after another, labelled by their numbers.
Index *bench_hnswlib_build(const float *vectors, size_t rows, size_t dimensions, size_t links, size_t candidates) {
    Index *index = nullptr;
    try {
        index = new Index(dimensions, rows, links, candidates);
        for (size_t row = 0; row < rows; row++) {
            index->graph.addPoint(vectors + row * dimensions, row);
        }
        return index;
    } catch (...) {
        delete index;
        return nullptr;
    }
}

void bench_hnswlib_free(Index *index) { delete index; }

/// Writes the labels of the `k` nearest, in any order, and returns how many there are.
size_t bench_hnswlib_search(Index *index, const float *query, size_t k, size_t ef, uint32_t *labels) {
    try {
        index->graph.setEf(ef);
        auto found = index->graph.searchKnn(query, k);
        size_t count = 0;
        for (; !found.empty(); found.pop()) {
            labels[count++] = static_cast<uint32_t>(found.top().second);
        }
        return count;
    } catch (...) {
        return 0;
    }
}

/// Bytes of vectors, labels and links, without unused room.
size_t bench_hnswlib_bytes(const Index *index) {
    const auto &graph = index->graph;
    size_t bytes = graph.cur_element_count * graph.size_data_per_element_;
    for (size_t row = 0; row < graph.cur_element_count; row++) {
        bytes += graph.element_levels_[row] * graph.size_links_per_element_;
    }
    return bytes;
}

}  // extern "C"
