"""LlamaIndex's MongoDBAtlasVectorSearch, as it is, against the real server."""
import asyncio

import pytest
from conftest import DIMENSIONS, SECRET, USER, embed
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition, FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery)
from llama_index.vector_stores.mongodb import MongoDBAtlasVectorSearch
from pymongo import AsyncMongoClient

TEXTS = ["red apples in a basket", "green apples on a tree", "a tree in the garden", "snow in the garden"]


def nodes():
    return [
        TextNode(text=text, id_=f"node{n}", embedding=embed(text), metadata={"year": 2000 + n, "kind": "even" if n % 2 == 0 else "odd"},
                 relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"source{n // 2}")})
        for n, text in enumerate(TEXTS)
    ]


@pytest.fixture
def store(server, client, collection):
    store = MongoDBAtlasVectorSearch(
        client, AsyncMongoClient(server.uri, username=USER, password=SECRET, authSource="admin"),
        db_name=collection.database.name, collection_name=collection.name)
    store.create_vector_search_index(DIMENSIONS, "embedding", "cosine", filters=["metadata.year"], wait_until_complete=30)
    assert store.add(nodes()) == [f"node{n}" for n in range(len(TEXTS))]
    yield store
    store.drop_vector_search_index()
    assert list(collection.list_search_indexes()) == []


def query(store, text, top=2, filters=None):
    return store.query(VectorStoreQuery(query_embedding=embed(text), similarity_top_k=top, filters=filters))


def where(*conditions, condition=FilterCondition.AND):
    filters = [MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in conditions]
    return MetadataFilters(filters=filters, condition=condition)


def test_nodes_are_found_with_text_metadata_and_score(store):
    found = query(store, TEXTS[1])
    assert found.ids[0] == "node1" and found.similarities[0] == pytest.approx(1, abs=1e-5)
    assert found.nodes[0].get_content() == TEXTS[1] and found.nodes[0].metadata["year"] == 2001
    assert found.similarities == sorted(found.similarities, reverse=True)


def test_metadata_filters_choose_nodes(store):
    for filters, ids in [
        (where(("year", FilterOperator.EQ, 2002)), {"node2"}),
        (where(("year", FilterOperator.GT, 2000), ("kind", FilterOperator.EQ, "odd")), {"node1", "node3"}),
        (where(("year", FilterOperator.LT, 2001), ("year", FilterOperator.GTE, 2003), condition=FilterCondition.OR), {"node0", "node3"}),
        (where(("year", FilterOperator.IN, [2000, 2002])), {"node0", "node2"}),
        (where(("kind", FilterOperator.NE, "odd")), {"node0", "node2"}),
    ]:
        assert set(query(store, "apples", 4, filters).ids) == ids


def test_nodes_are_deleted_by_their_source(store):
    store.delete("source0")
    assert set(query(store, "apples", 4).ids) == {"node2", "node3"}


def test_an_index_is_updated(store, collection):
    store.update_vector_search_index(DIMENSIONS, "embedding", "dotProduct", wait_until_complete=30)
    [index] = collection.list_search_indexes()
    assert index["latestDefinition"]["fields"][0]["similarity"] == "dotProduct"
    assert query(store, TEXTS[3], 1).ids == ["node3"]


def test_nodes_are_found_by_the_asynchronous_client(store):
    async def find():
        return await store.aquery(VectorStoreQuery(query_embedding=embed(TEXTS[2]), similarity_top_k=1))

    assert asyncio.run(find()).ids == ["node2"]
