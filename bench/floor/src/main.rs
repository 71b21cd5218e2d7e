//! How much of a read is the kernel and the client: TreeDB beside a server that does nothing.
//!
//! The same client sends the same requests, a find by `_id` as in YCSB C, to `treedb serve` and to a program that receives so many bytes and
//! sends a prepared reply of the same length, with a thread for each connection and one `recv` and one `send` for each request, as TreeDB
//! has while clients ask again soon. What the second one takes no server can do without that is asked in this way.
//!
//! `BENCH_TREEDB=target/release/treedb cargo run --release -p bench_floor`. `BENCH_QUICK=1` measures for a shorter time.

mod bytes;
mod echo;
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use bytes::{Protocol, length_of};
use server::{Server, cpu_micros};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Records that are read.
const RECORDS: u64 = 1_000;

/// How many connections. 1,000 need `ulimit -n 4096`.
const CONNECTIONS: [u64; 4] = [1, 8, 16, 1_000];

/// What some connections have done.
#[derive(Clone, Copy)]
struct Done {
    /// Requests per second.
    rate: f64,
    /// Microseconds of processor time per request, of the server.
    server: f64,
    /// The same of the client.
    client: f64,
}

/// Sends `request` and receives a whole reply.
fn ask(stream: &mut TcpStream, request: &[u8], protocol: Protocol, reply: &mut [u8]) -> Result<usize> {
    stream.write_all(request)?;
    let mut have = 0;
    loop {
        match stream.read(reply.get_mut(have..).unwrap_or_default())? {
            0 => return Err("the server has closed the connection, or its reply is too long".into()),
            got => have += got,
        }
        if length_of(protocol, reply.get(..have).unwrap_or_default()).is_some_and(|length| have >= length) {
            return Ok(have);
        }
    }
}

/// Sends requests for `time` on so many connections.
fn measure(server: &Server, protocol: Protocol, count: u64, time: Duration) -> Result<Done> {
    let connected = (0..count).map(|_| server.connect(protocol)).collect::<Result<Vec<_>>>()?;
    let ready = Barrier::new(connected.len());
    let before = (cpu_micros(server.id())?, cpu_micros(std::process::id())?);
    let done: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = connected
            .into_iter()
            .zip(0_u64..)
            .map(|((mut stream, statement), first)| {
                let ready = &ready;
                scope.spawn(move || -> Result<u64> {
                    let mut reply = vec![0; 16 * 1024];
                    let mut done = 0;
                    ready.wait();
                    let began = Instant::now();
                    while began.elapsed() < time {
                        let request = protocol.find(statement, (first * 7 + done * 13) % RECORDS);
                        let length = ask(&mut stream, &request, protocol, &mut reply)?;
                        if length < 1_000 {
                            return Err(format!("a reply of {length} bytes has no record").into());
                        }
                        done += 1;
                    }
                    Ok(done)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?).sum::<Result<u64>>()
    })?;
    let per = |now: u64, before: u64| (now - before) as f64 / done as f64;
    Ok(Done {
        rate: done as f64 / time.as_secs_f64(),
        server: per(cpu_micros(server.id())?, before.0),
        client: per(cpu_micros(std::process::id())?, before.1),
    })
}

/// The highest rate, because other programs only lower it, and the medians of processor time, which the system counts in coarse steps.
fn over(rounds: &[Done]) -> Done {
    let median = |of: fn(&Done) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Done {
        rate: rounds.iter().map(|done| done.rate).fold(0.0, f64::max),
        server: median(|done| done.server),
        client: median(|done| done.client),
    }
}

fn run() -> Result<()> {
    let quick = std::env::var_os("BENCH_QUICK").is_some();
    let (rounds, time) = if quick { (3, Duration::from_millis(700)) } else { (5, Duration::from_secs(2)) };
    let treedb = Server::treedb(RECORDS)?;
    println!(
        "| requests | connections | server | requests/s | CPU of the server, us | CPU of the client, us |"
    );
    println!("|---|---|---|---|---|---|");
    let mut gateway = Vec::new();
    for protocol in [Protocol::Mongo, Protocol::Native] {
        let (mut stream, statement) = treedb.connect(protocol)?;
        let request = protocol.find(statement, 5);
        let reply = ask(&mut stream, &request, protocol, &mut vec![0; 16 * 1024])?;
        let floor = Server::echo(protocol, request.len(), reply)?;
        let mut many = Vec::new();
        for (at, count) in CONNECTIONS.into_iter().enumerate() {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                without.push(measure(&floor, protocol, count, time)?);
                with.push(measure(&treedb, protocol, count, time)?);
            }
            let (with, without) = (over(&with), over(&without));
            many.push([with, without].map(|done| (done.rate, done.server + done.client)));
            for (name, Done { rate, server, client }) in [("TreeDB", with), ("nothing but bytes", without)] {
                let sizes = format!("{}, {} bytes for {reply}", protocol.name(), request.len());
                println!("| {sizes} | {count} | {name} | {rate:.0} | {server:.1} | {client:.1} |");
            }
            match protocol {
                Protocol::Mongo => gateway.push(with),
                Protocol::Native => {
                    let gateway = gateway.get(at).ok_or("MongoDB's protocol comes first")?;
                    let cpu = |done: &Done| done.server + done.client;
                    println!(
                        "\n{count} connections: native {:.2} times the requests/s of MongoDB's protocol, a server that does nothing {:.2}; \
                         {:.2} and {:.2} times as many for the processor time of server and client\n",
                        with.rate / gateway.rate,
                        without.rate / gateway.rate,
                        cpu(gateway) / cpu(&with),
                        cpu(gateway) / cpu(&without)
                    );
                }
            }
        }
        if let [.., few, many] = *many {
            let [with, without] = [0, 1].map(|side| (many[side].0 / few[side].0, few[side].1 / many[side].1));
            println!(
                "\n1,000 connections: {:.2} times the requests/s of 16, a server that does nothing {:.2}; \
                 {:.2} and {:.2} times as many for the processor time of server and client\n",
                with.0, without.0, with.1, without.1
            );
        }
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((first, sizes)) if first == echo::COMMAND => echo::run(sizes),
        _ => run(),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench_floor: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
