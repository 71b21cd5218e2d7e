"""Django with django-mongodb-backend: migrations, the ORM, transactions, and Django's own applications."""
import os
from datetime import datetime, timezone
from decimal import Decimal

import django
import pytest
from django.conf import settings

NAME = "python_django"

settings.configure(
    DATABASES={"default": {"ENGINE": "django_mongodb_backend", "HOST": os.environ["TREEDB_URI"], "NAME": NAME}},
    DATABASE_ROUTERS=["django_mongodb_backend.routers.MongoRouter"],
    DEFAULT_AUTO_FIELD="django_mongodb_backend.fields.ObjectIdAutoField",
    INSTALLED_APPS=["library.apps.MongoContentTypesConfig", "library.apps.MongoAuthConfig", "django.contrib.sessions", "library"],
    # Django's own migrations have keys that are integers.
    MIGRATION_MODULES={"contenttypes": None, "auth": None, "sessions": None, "library": "library_migrations"},
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    USE_TZ=True, SECRET_KEY="only for tests", TIME_ZONE="UTC",
)
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection  # noqa: E402
from django.db.models import Avg, Count, F, Max, Q, Sum  # noqa: E402
from django.db.models.functions import Lower  # noqa: E402
from django_mongodb_backend import transaction  # noqa: E402
from library.models import Author, Award, Book  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def migrated(client, tmp_path_factory):
    """The tables of the applications, by a migration that Django writes."""
    client.drop_database(NAME)
    folder = tmp_path_factory.mktemp("migrations")
    (folder / "library_migrations").mkdir()
    (folder / "library_migrations/__init__.py").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        call_command("makemigrations", "library", verbosity=0)
        call_command("migrate", run_syncdb=True, verbosity=0)
        yield
    connection.close()
    client.drop_database(NAME)


@pytest.fixture(autouse=True)
def empty():
    yield
    for model in (Book, Author, User):
        model.objects.all().delete()


def test_a_migration_makes_collections_and_indexes():
    assert {"library_author", "library_book", "auth_user", "django_migrations"} <= set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, "library_author")
    assert constraints["born_name"]["columns"] == ["born", "name"]
    assert any(each["unique"] and each["columns"] == ["name"] for each in constraints.values())


def test_models_are_saved_found_changed_and_deleted():
    ann = Author.objects.create(name="Ann", born=1900)
    with pytest.raises(IntegrityError):
        Author.objects.create(name="Ann")
    when = datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    book = Book.objects.create(title="One", author=ann, price=Decimal("12.50"), published=when, tags=["x", "y"],
                               award=Award(name="Prize", year=2001), extra={"pages": 7, "deep": {"a": [1, 2]}})
    found = Book.objects.select_related("author").get(award__year=2001)
    assert (found.author.name, found.price, found.published, found.tags) == ("Ann", Decimal("12.50"), when, ["x", "y"])
    assert Book.objects.filter(extra__deep__a__1=2, tags__contains=["y"], published__year=2020).count() == 1
    Book.objects.filter(pk=book.pk).update(price=F("price") + 1)
    book.refresh_from_db()
    assert book.price == Decimal("13.50")
    book.readers.add(ann, Author.objects.create(name="Bob"))
    assert sorted(book.readers.values_list("name", flat=True)) == ["Ann", "Bob"]
    assert Author.objects.filter(reads__title="One").exclude(name="Ann").get().name == "Bob"
    assert Author.objects.get_or_create(name="Bob")[1] is False
    assert ann.delete()[0] == 4 and Book.objects.count() == 0


def test_queries_join_group_order_and_page():
    authors = Author.objects.bulk_create([Author(name=f"Author {i:02}", born=1900 + i % 7) for i in range(20)])
    Book.objects.bulk_create([Book(title=f"Book {i:03}", author=authors[i % 20], price=Decimal(i)) for i in range(300)])
    top = Author.objects.annotate(n=Count("books"), total=Sum("books__price")).order_by("-total")[:2]
    assert [(each.name, each.n, each.total) for each in top] == [
        ("Author 19", 15, sum(Decimal(i) for i in range(19, 300, 20))), ("Author 18", 15, sum(Decimal(i) for i in range(18, 300, 20)))]
    assert Book.objects.aggregate(most=Max("price"), mean=Avg("price")) == {"most": Decimal(299), "mean": Decimal("149.5")}
    found = Book.objects.filter(Q(author__name__iendswith="05") | Q(title__contains="007"), price__lt=50)
    assert sorted(found.values_list("title", flat=True)) == ["Book 005", "Book 007", "Book 025", "Book 045"]
    assert list(Author.objects.annotate(low=Lower("name")).order_by("-low").values_list("low", flat=True)[3:5]) == ["author 16", "author 15"]
    assert Author.objects.values("born").annotate(n=Count("pk")).order_by("-n", "born").first() == {"born": 1900, "n": 3}
    assert len(list(Book.objects.order_by("pk").iterator(chunk_size=40))) == 300
    assert Book.objects.filter(author__in=Author.objects.filter(born=1900)).count() == 45
    assert Book.objects.filter(price__gte=100).delete()[0] == 200
    assert '"queryPlanner"' in Book.objects.filter(price=1).explain()


def test_a_transaction_is_all_or_nothing():
    Author.objects.create(name="Eve", born=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Author.objects.filter(name="Eve").update(born=2)
        Author.objects.create(name="Eve")
    assert Author.objects.get().born == 1
    with transaction.atomic():
        Author.objects.filter(name="Eve").update(born=3)
    assert Author.objects.get().born == 3


def test_users_and_sessions_of_django_live_here():
    User.objects.create_user("ann", "ann@example.org", "secret")
    assert User.objects.get(username="ann").check_password("secret")
    session = SessionStore()
    session["cart"] = [1, 2]
    session.save()
    assert SessionStore(session_key=session.session_key)["cart"] == [1, 2]
    call_command("clearsessions")


def test_raw_pipelines():
    Author.objects.create(name="Ann", born=1900)
    assert [each.name for each in Author.pipelines.raw_aggregate([{"$match": {"born": {"$gt": 1}}}])] == ["Ann"]
