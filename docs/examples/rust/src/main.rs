//! A shop: cargo run -- seed | order CUSTOMER ITEM QUANTITY | report | watch

use std::env;
use std::process::ExitCode;

use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{Error, Result};
use mongodb::options::ReturnDocument;
use mongodb::sync::{Client, Collection};

const USAGE: &str = "usage: shop seed | order CUSTOMER ITEM QUANTITY | report | watch";
const STOCK: [(&str, i32, i32); 3] = [("coffee", 7, 10), ("tea", 4, 20), ("sugar", 2, 5)];

struct Shop {
    client: Client,
    items: Collection<Document>,
    orders: Collection<Document>,
}

impl Shop {
    fn open(uri: &str) -> Result<Self> {
        let client = Client::with_uri_str(uri)?;
        let database = client.database("shop");
        Ok(Shop { items: database.collection("items"), orders: database.collection("orders"), client })
    }

    fn seed(&self) -> Result<()> {
        for (name, price, stock) in STOCK {
            let insert = doc! { "$setOnInsert": { "price": price, "stock": stock } };
            self.items.update_one(doc! { "_id": name }, insert).upsert(true).run()?;
        }
        self.orders.create_index(IndexModel::builder().keys(doc! { "item": 1, "at": -1 }).build()).run()?;
        println!("{} items in stock", self.items.count_documents(doc! {}).run()?);
        Ok(())
    }

    fn order(&self, customer: &str, name: &str, quantity: i32) -> Result<()> {
        let mut session = self.client.start_session().run()?;
        let left = session.start_transaction().and_run(|session| {
            // The condition and the change are one operation; a transaction adds the order, or takes the change back.
            let item = self
                .items
                .find_one_and_update(
                    doc! { "_id": name, "stock": { "$gte": quantity } },
                    doc! { "$inc": { "stock": -quantity } },
                )
                .return_document(ReturnDocument::After)
                .session(&mut *session)
                .run()?
                .ok_or_else(|| Error::custom(format!("not enough {name}")))?;
            let price = quantity * item.get_i32("price").map_err(Error::custom)?;
            let order = doc! {
                "customer": customer, "item": name, "quantity": quantity, "price": price, "at": DateTime::now(),
            };
            self.orders.insert_one(order).session(&mut *session).run()?;
            item.get_i32("stock").map_err(Error::custom)
        })?;
        println!("{customer} ordered {quantity} {name}, {left} left");
        Ok(())
    }

    fn report(&self) -> Result<()> {
        let rows = self.orders.aggregate([
            doc! { "$group": {
                "_id": "$item", "quantity": { "$sum": "$quantity" }, "orders": { "$sum": 1 }, "price": { "$sum": "$price" },
            } },
            doc! { "$sort": { "price": -1, "_id": 1 } },
        ]);
        for row in rows.run()? {
            let row = row?;
            let number = |field| row.get_i32(field).map_err(Error::custom);
            let item = row.get_str("_id").map_err(Error::custom)?;
            println!("{item}: {} in {} orders, {}", number("quantity")?, number("orders")?, number("price")?);
        }
        Ok(())
    }

    fn watch(&self) -> Result<()> {
        let changes =
            self.orders.watch().pipeline([doc! { "$match": { "operationType": "insert" } }]).run()?;
        println!("watching");
        for change in changes {
            let Some(order) = change?.full_document else { continue };
            let text = |field| order.get_str(field).map_err(Error::custom);
            println!(
                "{}: {} {}",
                text("customer")?,
                order.get_i32("quantity").map_err(Error::custom)?,
                text("item")?
            );
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let uri = env::var("SHOP_URI").unwrap_or_else(|_| "mongodb://127.0.0.1:27017/?replicaSet=rs0".into());
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let shop = || Shop::open(&uri);
    let done = match arguments[..] {
        ["seed"] => shop().and_then(|shop| shop.seed()),
        ["order", customer, item, quantity] if quantity.parse().is_ok_and(|quantity: i32| quantity >= 0) => {
            shop().and_then(|shop| shop.order(customer, item, quantity.parse().unwrap_or_default()))
        }
        ["report"] => shop().and_then(|shop| shop.report()),
        ["watch"] => shop().and_then(|shop| shop.watch()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match error.get_custom::<String>() {
                Some(reason) => eprintln!("{reason}"),
                None => eprintln!("{error}"),
            }
            ExitCode::FAILURE
        }
    }
}
