//! Threads that encode chunks beside the one that gathers them.
//!
//! Chunks are encoded alone, so who encodes one changes no byte. A thread has a table of its own, to which it adds the
//! blocks that it lacks before each chunk.

use super::encoder::{Columns, Encoder, RawChunk};
use crate::Block;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Each takes 41 MiB (gzip) to 73 (cc1): a chunk, its columns, and a table of all blocks. With two, cc1 took 290 MiB in
/// all, and pagewalk promises 250 MB.
const MOST: usize = 1;
/// Processors that the program, and what decodes and gathers its stream, keep busy. Without others, passing chunks on
/// takes longer than it saves.
const TAKEN: usize = 2;

/// The threads.
pub(super) struct Encoders {
    threads: Vec<EncodingThread>,
    /// How many may be started.
    most: usize,
    /// All blocks, in the order of their numbers.
    blocks: Vec<Arc<Block>>,
}

/// The columns of a chunk, or what is wrong with it.
pub(super) type Encoded = Result<Columns, String>;

/// A chunk to encode.
struct Job {
    chunk: RawChunk,
    /// The blocks that the thread lacks.
    blocks: Vec<Arc<Block>>,
    /// Empty columns, for their room.
    room: Columns,
    answer: SyncSender<Encoded>,
}

struct EncodingThread {
    jobs: SyncSender<Job>,
    /// Gives each chunk back when it is encoded, for its room.
    done: Receiver<RawChunk>,
    /// Blocks that it has.
    blocks: usize,
}

impl Encoders {
    /// At most so many threads, which start when they are needed.
    pub fn new(most: usize) -> Encoders {
        Encoders { threads: Vec::new(), most, blocks: Vec::new() }
    }

    /// How many threads the host has processors for.
    pub fn of_host() -> usize {
        thread::available_parallelism()
            .map_or(0, |processors| processors.get().saturating_sub(TAKEN))
            .min(MOST)
    }

    /// Adds blocks to those that chunks may name.
    pub fn add_blocks(&mut self, blocks: &[Arc<Block>]) {
        self.blocks.extend_from_slice(blocks);
    }

    /// A thread that has nothing to do, and a chunk to fill for it.
    pub fn idle(&mut self) -> Option<(usize, RawChunk)> {
        let mut threads = self.threads.iter().enumerate();
        let idle = threads.find_map(|(number, thread)| Some((number, thread.done.try_recv().ok()?)));
        if idle.is_some() {
            return idle;
        }
        if self.threads.len() == self.most {
            return None;
        }
        // If none can be started, as many as there are do.
        let thread = EncodingThread::start().inspect_err(|_| self.most = self.threads.len()).ok()?;
        self.threads.push(thread);
        Some((self.threads.len() - 1, RawChunk::default()))
    }

    /// Lets an idle thread encode a chunk. `room`: empty columns.
    pub fn encode(&mut self, thread: usize, chunk: RawChunk, room: Columns) -> Receiver<Encoded> {
        let thread = &mut self.threads[thread];
        let (answer, encoded) = sync_channel(1);
        let blocks = self.blocks[thread.blocks..].to_vec();
        thread.blocks = self.blocks.len();
        // Only a panic ends the thread early; who waits for the answer passes it on.
        let _ = thread.jobs.send(Job { chunk, blocks, room, answer });
        encoded
    }
}

impl EncodingThread {
    fn start() -> io::Result<EncodingThread> {
        let (jobs, received) = sync_channel::<Job>(1);
        let (give_back, done) = sync_channel(1);
        thread::Builder::new().name("encode".to_owned()).spawn(move || {
            let mut encoder = Encoder::default();
            for Job { mut chunk, blocks, room, answer } in received {
                // The writer may have ended.
                let _ = answer.send(encode(&mut encoder, &mut chunk, &blocks, room));
                let _ = give_back.send(chunk);
            }
        })?;
        Ok(EncodingThread { jobs, done, blocks: 0 })
    }
}

fn encode(encoder: &mut Encoder, chunk: &mut RawChunk, blocks: &[Arc<Block>], room: Columns) -> Encoded {
    blocks.iter().try_for_each(|block| encoder.table.add(block))?;
    encoder.columns = room;
    encoder.start_chunk();
    encoder.encode_chunk(chunk)?;
    Ok(std::mem::take(&mut encoder.columns))
}
