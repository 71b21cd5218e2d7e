"""Beanie: pydantic models over PyMongo's asynchronous client."""
from typing import Annotated, Optional

import pymongo
import pytest
from beanie import Document, Indexed, Link, WriteRules, init_beanie
from beanie.operators import In, Inc, Set
from pydantic import BaseModel, ValidationError
from pymongo.errors import DuplicateKeyError


class Maker(Document):
    name: Annotated[str, Indexed(unique=True)]


class Size(BaseModel):
    width: float
    height: float


class Product(Document):
    name: str
    price: float
    size: Optional[Size] = None
    tags: list[str] = []
    maker: Optional[Link[Maker]] = None

    class Settings:
        use_state_management = True
        indexes = [pymongo.IndexModel([("price", pymongo.DESCENDING)], name="price")]


@pytest.fixture(autouse=True)
async def models(async_db):
    await init_beanie(database=async_db, document_models=[Maker, Product])


async def test_models_are_saved_found_changed_and_deleted():
    with pytest.raises(ValidationError):
        Product(name="x", price="cheap")
    maker = Maker(name="Acme")
    product = Product(name="anvil", price=5, size=Size(width=1, height=2), tags=["heavy"], maker=maker)
    await product.insert(link_rule=WriteRules.WRITE)
    with pytest.raises(DuplicateKeyError):
        await Maker(name="Acme").insert()
    found = await Product.find_one(Product.name == "anvil", fetch_links=True)
    assert found.maker.name == "Acme" and found.size.height == 2
    found.price = 6
    await found.save_changes()
    await found.update(Inc({Product.price: 1}), Set({Product.tags: ["a", "b"]}))
    again = await Product.get(product.id)
    assert again.price == 7 and again.tags == ["a", "b"]
    await again.delete()
    assert await Product.count() == 0
    names = [index["name"] async for index in await Product.get_pymongo_collection().list_indexes()]
    assert names == ["_id_", "price"]


async def test_queries_bulk_and_aggregation():
    await Product.insert_many([Product(name=f"p{i:03}", price=i % 10) for i in range(300)])
    assert await Product.find(Product.price > 7, Product.name < "p100").count() == 20
    page = await Product.find(In(Product.price, [1, 2])).sort(-Product.price, +Product.name).skip(1).limit(2).to_list()
    assert [each.name for each in page] == ["p012", "p022"]
    assert await Product.find(Product.price == 3).avg(Product.price) == 3
    await Product.find(Product.price == 3).update({"$set": {"price": 100}})
    class Row(BaseModel):
        n: int
    rows = await Product.aggregate([{"$match": {"price": 100}}, {"$count": "n"}], projection_model=Row).to_list()
    assert rows == [Row(n=30)]
    assert (await Product.find(Product.price == 100).delete()).deleted_count == 30
    seen = 0
    async for _ in Product.find_all(batch_size=50):
        seen += 1
    assert seen == 270


async def test_a_transaction_is_all_or_nothing(async_db):
    await Maker(name="Acme").insert()
    with pytest.raises(DuplicateKeyError):
        async with async_db.client.start_session() as session, await session.start_transaction():
            await Product(name="p", price=1).insert(session=session)
            await Maker(name="Acme").insert(session=session)
    assert await Product.count() == 0
