//! A server that does nothing: it receives so many bytes and sends so many.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::Result;
use crate::bytes::Protocol;

/// The first argument of the process.
pub(crate) const COMMAND: &str = "echo";

fn serve(mut stream: TcpStream, request: usize, reply: &[u8]) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut received = vec![0; 16 * 1024];
    let mut have = 0;
    loop {
        match stream.read(&mut received)? {
            0 => return Ok(()),
            got => have += got,
        }
        while have >= request {
            have -= request;
            stream.write_all(reply)?;
        }
    }
}

/// Serves replies of a length, by a protocol, to requests of a length, until it is killed. Prints its port.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [protocol, request, reply] = arguments else { return Err("echo PROTOCOL REQUEST REPLY".into()) };
    let protocol = if protocol == Protocol::Native.name() { Protocol::Native } else { Protocol::Mongo };
    let (request, reply) = (request.parse()?, protocol.reply_of(reply.parse()?)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening echo {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let (stream, reply) = (stream?, reply.clone());
        std::thread::spawn(move || serve(stream, request, &reply));
    }
    Ok(())
}
