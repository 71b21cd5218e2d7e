"""LangChain's MongoDBAtlasVectorSearch, as it is, against the real server."""
import pytest
from conftest import DIMENSIONS, embed
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_mongodb import MongoDBAtlasVectorSearch

TEXTS = [
    "the cat sleeps on the warm roof",
    "a dog barks at the cat",
    "rain falls on the old roof",
    "bread is baked in the morning",
    "the baker sells warm bread",
]


class Words(Embeddings):
    def embed_documents(self, texts):
        return [embed(text) for text in texts]

    def embed_query(self, text):
        return embed(text)


@pytest.fixture
def store(collection):
    """The store creates its collection and its index, and waits until that is ready."""
    store = MongoDBAtlasVectorSearch(collection, Words(), index_name="by_words", dimensions=DIMENSIONS)
    store.add_texts(TEXTS, metadatas=[{"number": n, "odd": n % 2 == 1} for n in range(len(TEXTS))])
    return store


def test_the_store_creates_its_index_and_finds_texts_by_their_words(store, collection):
    [index] = collection.list_search_indexes()
    assert (index["name"], index["status"]) == ("by_words", "READY")
    found = store.similarity_search("warm bread", k=2)
    assert found[0].page_content == TEXTS[4] and found[1].page_content in TEXTS
    assert "embedding" not in found[0].metadata and found[0].metadata["number"] == 4


def test_scores_are_those_of_the_cosine_and_an_equal_text_has_1(store):
    found = store.similarity_search_with_score(TEXTS[2], k=5)
    scores = [score for _, score in found]
    assert found[0][0].page_content == TEXTS[2] and scores[0] == pytest.approx(1, abs=1e-5)
    for document, score in found:
        cosine = sum(a * b for a, b in zip(embed(TEXTS[2]), embed(document.page_content)))
        assert score == pytest.approx((1 + cosine) / 2, abs=1e-5)
    assert scores == sorted(scores, reverse=True)


def test_filters_before_and_after_the_search_choose_documents(store):
    odd = store.similarity_search("the warm roof", k=5, pre_filter={"odd": True})
    assert {document.metadata["number"] for document in odd} == {1, 3}
    some = store.similarity_search("the warm roof", k=5, pre_filter={"number": {"$gte": 2, "$lt": 4}})
    assert {document.metadata["number"] for document in some} == {2, 3}
    after = [{"$match": {"odd": False}}, {"$sort": {"number": 1}}]
    found = store.similarity_search("the warm roof", k=5, post_filter_pipeline=after)
    assert [document.metadata["number"] for document in found] == [0, 2, 4]


def test_documents_are_added_replaced_read_and_deleted_by_id(store):
    document = Document(page_content="a bird sings", metadata={"number": 9}, id="bird")
    assert store.add_documents([document]) == ["bird"]
    assert store.similarity_search("a bird sings", k=1)[0].id == "bird"
    # LangChain returns the ids that are new.
    assert store.add_documents([Document(page_content="a fish swims", metadata={}, id="bird")]) == []
    assert store.similarity_search("a fish swims", k=1)[0].page_content == "a fish swims"
    assert [document.page_content for document in store.get_by_ids(["bird"])] == ["a fish swims"]
    assert store.delete(["bird"]) is True
    assert store.similarity_search("a fish swims", k=1)[0].page_content in TEXTS
    assert store.get_by_ids(["bird"]) == []


def test_the_retriever_the_relevant_and_the_diverse_searches_work(store):
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("baker sells bread")[0].page_content == TEXTS[4]
    relevant = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"k": 5, "score_threshold": 0.999})
    assert [document.page_content for document in relevant.invoke(TEXTS[0])] == [TEXTS[0]]
    diverse = store.max_marginal_relevance_search("the roof", k=3, fetch_k=5, lambda_mult=0.3)
    assert len({document.page_content for document in diverse}) == 3


@pytest.mark.parametrize("similarity", ["euclidean", "dotProduct"])
def test_other_similarities_and_updated_indexes_work(collection, similarity):
    store = MongoDBAtlasVectorSearch(
        collection, Words(), index_name="by_words", dimensions=DIMENSIONS, relevance_score_fn=similarity)
    store.add_texts(TEXTS)
    assert store.similarity_search(TEXTS[1], k=1)[0].page_content == TEXTS[1]
    store.create_vector_search_index(DIMENSIONS, filters=["number"], update=True, wait_until_complete=30)
    [index] = collection.list_search_indexes()
    assert index["latestDefinition"]["fields"][1] == {"type": "filter", "path": "number"}
    assert store.similarity_search(TEXTS[1], k=1)[0].page_content == TEXTS[1]


def test_a_store_made_from_texts_is_found_again_by_another_one(collection):
    MongoDBAtlasVectorSearch.from_texts(TEXTS, Words(), collection=collection, index_name="by_words", dimensions=DIMENSIONS)
    again = MongoDBAtlasVectorSearch(collection, Words(), index_name="by_words", dimensions=DIMENSIONS)
    assert again.similarity_search(TEXTS[3], k=1)[0].page_content == TEXTS[3]
    assert len(list(collection.list_search_indexes())) == 1
