"""MongoEngine: schemas, references, embedded documents, atomic updates, GridFS fields."""
import mongoengine as me
import pytest

from conftest import URI


class Author(me.Document):
    name = me.StringField(required=True, unique=True)
    born = me.IntField(min_value=1)
    meta = {"indexes": [{"fields": ["-born", "name"]}], "ordering": ["name"]}


class Rating(me.EmbeddedDocument):
    by = me.StringField()
    stars = me.IntField()


class Book(me.Document):
    title = me.StringField()
    author = me.ReferenceField(Author, reverse_delete_rule=me.CASCADE)
    ratings = me.EmbeddedDocumentListField(Rating)
    tags = me.ListField(me.StringField())
    price = me.Decimal128Field()
    number = me.SequenceField()
    cover = me.FileField()
    meta = {"allow_inheritance": True}


class Comic(Book):
    artist = me.StringField()


@pytest.fixture(autouse=True)
def connection(db):
    me.connect(db.name, host=URI, uuidRepresentation="standard", serverSelectionTimeoutMS=5000)
    Author.ensure_indexes()
    Book.ensure_indexes()
    yield
    me.disconnect()
    Author._collection = Book._collection = Comic._collection = None


def test_documents_are_validated_saved_found_and_deleted():
    with pytest.raises(me.ValidationError):
        Author(name="x", born=-1).save()
    ann = Author(name="Ann", born=1900).save()
    with pytest.raises(me.NotUniqueError):
        Author(name="Ann").save()
    book = Book(title="One", author=ann, tags=["x"], price="12.50", ratings=[Rating(by="bob", stars=5)]).save()
    comic = Comic(title="Two", artist="Cat", author=ann).save()
    assert (book.number, comic.number) == (1, 2)
    assert Book.objects(ratings__stars__gt=4).get().author.name == "Ann"
    assert [type(each) for each in Book.objects.order_by("number")] == [Book, Comic]
    assert Comic.objects.count() == 1
    book.tags.append("y")
    book.ratings.filter(by="bob").update(stars=3)
    book.save()
    book.reload()
    assert book.tags == ["x", "y"] and book.ratings[0].stars == 3 and str(book.price) == "12.50"
    ann.delete()
    assert Book.objects.count() == 0


def test_queries_updates_and_aggregations():
    Author.objects.insert([Author(name=f"author {i:03}", born=1900 + i % 30) for i in range(300)])
    assert [each.name for each in Author.objects(name__startswith="author 00").only("name")] == [f"author {i:03}" for i in range(10)]
    assert Author.objects(born=1900).update(inc__born=50) == 10
    assert Author.objects(me.Q(born=1950) | me.Q(name__iendswith="001")).count() == 11
    assert Author.objects(born__lt=1903).sum("born") == 10 * (1901 + 1902)
    assert Author.objects.average("born") == sum([1950] + list(range(1901, 1930))) / 30
    oldest, = Author.objects.aggregate([{"$group": {"_id": None, "n": {"$min": "$born"}}}])
    assert oldest["n"] == 1901
    changed = Author.objects(name="author 005").modify(set__born=1, new=True)
    assert changed.born == 1
    assert Author.objects(name="new").update_one(set__born=5, upsert=True) == 1
    assert len(Author.objects.skip(5).limit(7)) == 7
    assert Author.objects(born__gte=1925).delete() == 60
    assert {"_id", "name", "born"} <= {name for index in Author.list_indexes() for name, _ in index}


def test_a_file_lives_in_its_document(db):
    book = Book(title="One")
    book.cover.put(b"picture" * 100_000, content_type="image/png")
    book.save()
    found = Book.objects.get()
    assert found.cover.read() == b"picture" * 100_000 and found.cover.content_type == "image/png"
    found.cover.delete()
    assert db.fs.chunks.count_documents({}) == 0
