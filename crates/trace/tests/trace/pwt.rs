//! The `.pwt` format: everything is read back, and nothing else ever is.

use crate::common::{Disk, Step, Stream, block, header, map, read};
use pagewalk_trace::pwt::{Reader, Writer, events, fuzz_one, info};
use pagewalk_trace::{
    Analysis, Batch, Dictionary, Event, Item, Mapping, Ref, Source, SourceError, Span, ThpDisable,
};
use pagewalk_units::{BlockId, RefIndex, SpaceId, ThreadId, VirtAddr};
use proptest::prelude::*;
use std::io::{self, Cursor};

/// What happens next in a random stream.
#[derive(Clone, Debug)]
enum Action {
    /// Executions of blocks in a row, a stride apart.
    Loop {
        block: usize,
        times: u8,
        start: u64,
        stride: u64,
    },
    /// One execution with references anywhere.
    Scatter {
        block: usize,
        seed: u64,
    },
    /// Memory on pages of 4 KiB or, if the second says so, larger ones.
    Map(u64, bool),
    /// Huge pages are forbidden, all sleep, a thread was spinning.
    Rare(u64),
    Switch(u32),
    /// Another thread and space without an event.
    Elsewhere(u32, u32),
    /// Something was left out of the stream.
    Gap(u64, u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (any::<usize>(), 1..40u8, any::<u64>(), prop_oneof![Just(0), 1..4096u64, any::<u64>()])
            .prop_map(|(block, times, start, stride)| Action::Loop { block, times, start, stride }),
        6 => (any::<usize>(), any::<u64>()).prop_map(|(block, seed)| Action::Scatter { block, seed }),
        1 => (0..1000u64, any::<bool>()).prop_map(|(page, large)| Action::Map(page, large)),
        1 => any::<u64>().prop_map(Action::Rare),
        1 => (1..4u32).prop_map(Action::Switch),
        1 => (1..4u32, 0..2u32).prop_map(|(thread, space)| Action::Elsewhere(thread, space)),
        1 => (0..100u64, 0..100u64).prop_map(|(refs, instructions)| Action::Gap(refs, instructions)),
    ]
}

fn stream() -> impl Strategy<Value = Stream> {
    let metas = prop_oneof![
        9 => prop::collection::vec(0..128u8, 0..12),
        1 => prop::collection::vec(0..128u8, 60..200),
    ];
    let blocks = prop::collection::vec((0..9u16, metas), 1..12);
    (blocks, prop::collection::vec(action(), 0..60)).prop_map(|(blocks, actions)| {
        let mut stream = Stream { thread: ThreadId(1), ..Stream::default() };
        let blocks: Vec<_> = blocks
            .iter()
            .enumerate()
            .map(|(n, (count, metas))| block(0x40_0000 + 97 * n as u64, *count, metas))
            .collect();
        for action in actions {
            act(&mut stream, &blocks, &action);
        }
        stream
    })
}

fn act(stream: &mut Stream, blocks: &[pagewalk_trace::Block], action: &Action) {
    match *action {
        Action::Loop { block, times, start, stride } => {
            let block = stream.blocks.intern(blocks[block % blocks.len()].clone());
            for time in 0..u64::from(times) {
                let base = start.wrapping_add(stride.wrapping_mul(time));
                stream.execute(block, |slot| base.wrapping_add(8 * slot as u64));
            }
        }
        Action::Scatter { block, seed } => {
            let block = stream.blocks.intern(blocks[block % blocks.len()].clone());
            let shift = seed % 60;
            stream.execute(block, |slot| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * slot as u64) >> shift);
        }
        Action::Map(page, large) => {
            let page_bytes = if large { 2 << 20 } else { 4096 };
            let Event::Map(mapping) = map(page_bytes * page, page_bytes) else { unreachable!("it maps") };
            stream.event(Event::Map(Mapping { page_bytes, ..mapping }));
        }
        Action::Rare(number) => stream.event(match number % 3 {
            0 => Event::ThpDisable { mode: ThpDisable::from_code(number / 3 % 3).expect("a mode") },
            1 => Event::Idle { nanoseconds: number },
            _ => Event::Spin { instructions: number },
        }),
        Action::Switch(thread) => stream.event(Event::Switch { thread }),
        Action::Elsewhere(thread, space) => {
            (stream.thread, stream.space) = (ThreadId(thread), SpaceId(space))
        }
        Action::Gap(refs, instructions) => {
            stream.refs += refs;
            stream.instructions += instructions;
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        stream in stream(),
        batch in 1..100usize,
        chunk in prop_oneof![1..50u64, 50..5000u64],
    ) {
        let file = stream.to_file(batch, chunk);
        let (steps, blocks, error) = read(&file);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(&steps, &stream.steps);
        prop_assert_eq!(blocks.len(), stream.blocks.len());
        prop_assert!(blocks.iter().eq(stream.blocks.since(0)));
        prop_assert_eq!(&stream.to_file(batch, chunk), &file, "the same stream makes the same bytes");

        let info = info(Cursor::new(&file)).unwrap();
        let executions = steps.iter().filter(|step| matches!(step, Step::Execution { .. })).count();
        prop_assert_eq!(info.damage, None);
        prop_assert_eq!(info.block_executions, executions as u64);
        prop_assert_eq!(info.events.values().sum::<u64>(), (steps.len() - executions) as u64);
        let refs = steps.iter().map(|step| if let Step::Execution { refs, .. } = step { refs.len() } else { 0 });
        prop_assert_eq!(info.references, refs.sum::<usize>() as u64);
        prop_assert_eq!(events(file.as_slice(), |_| true).unwrap().events, events_of(&steps));
    }

    /// Wherever batches are left out from, in the middle of a chunk or at its end.
    #[test]
    fn events_remain_where_batches_are_left_out(stream in stream(), chunk in 1..50u64, items in 0..60usize) {
        let file = stream.to_file(7, chunk);
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let mut events = Vec::new();
        for item in 0.. {
            if item == items {
                reader.leave_batches_out();
            }
            match reader.next_item().unwrap() {
                Some(Item::Batch(_)) => prop_assert!(item < items),
                Some(Item::Event { event, .. }) => events.push(event),
                None => break,
            }
        }
        let all = events_of(&stream.steps).into_iter().map(|(_, event)| event);
        prop_assert_eq!(events, all.collect::<Vec<_>>());
    }

    #[test]
    fn random_changes_are_found(
        stream in stream(),
        chunk in 1..200u64,
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8),
    ) {
        let file = stream.to_file(10, chunk);
        let mut changed = file.clone();
        for (place, value) in changes {
            let place = place % changed.len();
            changed[place] = value;
        }
        let (steps, _, error) = read(&changed);
        prop_assert!(steps == stream.steps || error.is_some());
        prop_assert!(stream.steps.starts_with(&steps));
        fuzz_one(&changed);
    }

    #[test]
    fn any_bytes_return(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_one(&bytes);
    }
}

/// A file of a few chunks, small enough to damage in every place.
/// Events, each with the executions before it.
fn events_of(steps: &[Step]) -> Vec<(u64, Event)> {
    let mut executions = 0;
    let mut found = Vec::new();
    for step in steps {
        match step {
            Step::Execution { .. } => executions += 1,
            Step::Event { event, .. } => found.push((executions, event.clone())),
        }
    }
    found
}

fn small() -> (Stream, Vec<u8>) {
    let mut stream = Stream { thread: ThreadId(1), ..Stream::default() };
    let blocks: Vec<BlockId> = [&[13, 14, 13, 13, 13][..], &[], &[14]]
        .iter()
        .zip(0..)
        .map(|(m, n)| stream.blocks.intern(block(64 * n, 3, m)))
        .collect();
    stream.event(map(0x1000, 0x4000));
    for round in 0..40u64 {
        stream.execute(blocks[0], |slot| 0x1000 + 24 * round + 8 * slot as u64);
        stream.execute(blocks[1 + (round % 3 == 0) as usize], |_| 0x1ffe_fff0_0000 + round * round);
        if round == 20 {
            stream.event(Event::Switch { thread: 2 });
        }
    }
    stream.event(Event::Exit { status: 0 });
    let file = stream.to_file(8, 60);
    (stream, file)
}

#[test]
fn a_file_cut_anywhere_reads_up_to_its_last_whole_chunk() {
    let (stream, file) = small();
    let trailer = file.len() - 16;
    let mut longest = 0;
    for cut in 0..file.len() {
        let (steps, _, error) = read(&file[..cut]);
        assert!(stream.steps.starts_with(&steps), "cut at {cut}");
        assert!(steps.len() >= longest, "a longer file never yields less");
        longest = steps.len();
        match error {
            Some(SourceError::Truncated(text)) => assert!(text.contains(&format!("at byte {cut}")), "{text}"),
            Some(error) => assert!(cut == 0, "cut at {cut}: {error}"),
            None => assert!(cut >= trailer, "cut at {cut}"),
        }
        if let Ok(found) = events(&file[..cut], |_| true) {
            assert_eq!(found.events, events_of(&steps), "cut at {cut}");
        }
        if let Ok(info) = info(Cursor::new(&file[..cut])) {
            assert!(info.damage.is_some(), "cut at {cut}");
            assert_eq!(info.block_executions + info.events.values().sum::<u64>(), steps.len() as u64);
        }
    }
    assert_eq!(longest, stream.steps.len());
    let (_, _, error) = read(&file[..trailer - 100]);
    let text = error.unwrap().to_string();
    assert!(text.contains("cut off") && text.contains("bytes are there"), "{text}");
}

/// Two traces that were joined were read as the first, in silence.
#[test]
fn what_follows_the_end_is_told() {
    let (_, file) = small();
    let (steps, _, none) = read(&file);
    assert!(none.is_none(), "{none:?}");
    let surplus = format!("something else follows from byte {}", file.len());
    for more in [&file[..], &[0]] {
        let joined = [&file[..], more].concat();
        let (all, _, error) = read(&joined);
        assert_eq!(all, steps);
        assert!(error.expect("a complaint").to_string().ends_with(&surplus));
        let about = info(&mut Cursor::new(&joined)).unwrap();
        assert!(about.damage.expect("damage").ends_with(&surplus));
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let (stream, file) = small();
    let (mut harmless, mut read_all) = (0, 0);
    for bit in 0..8 * file.len() {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (steps, _, error) = read(&flipped);
        assert!(stream.steps.starts_with(&steps), "bit {bit}");
        assert!(error.is_some() || steps == stream.steps, "bit {bit}");
        harmless += usize::from(error.is_none());
        read_all += usize::from(steps == stream.steps);
        if let Ok(info) = info(Cursor::new(&flipped)) {
            assert!(info.damage.is_some() || info.references == stream.refs, "bit {bit}");
        }
    }
    assert_eq!(harmless, 8 * 16, "only the trailer does not matter to a reader that goes from front to back");
    assert!(read_all > harmless, "a damaged index does not hide the stream before it");
}

#[test]
fn damage_in_the_middle_says_what_is_lost() {
    let (stream, file) = small();
    let mut changed = file.clone();
    let frames = frame_starts(&file);
    let chunks: Vec<usize> = frames.iter().filter(|&&(_, kind)| kind == 3).map(|&(start, _)| start).collect();
    assert_eq!(chunks.len(), 4);
    changed[chunks[1] + 40] ^= 1;
    let (steps, _, error) = read(&changed);
    assert!(stream.steps.starts_with(&steps) && !steps.is_empty());
    let records = |chunk: usize| u64::from_le_bytes(file[chunks[chunk] + 16..][..8].try_into().unwrap());
    let behind = records(2) + records(3);
    let expected = format!(
        "the chunk frame at byte {} is damaged (its checksum is wrong): {} records lost, and {behind} records in \
         whole chunks behind it were not read",
        chunks[1],
        records(1),
    );
    assert_eq!(error.unwrap().to_string(), expected);
}

/// The offset and kind of each frame, found by walking the file as the format specification says.
fn frame_starts(file: &[u8]) -> Vec<(usize, u8)> {
    let mut frames = Vec::new();
    let mut start = 16;
    while start < file.len() - 16 {
        frames.push((start, file[start + 4]));
        start += 32 + u32::from_le_bytes(file[start + 8..][..4].try_into().unwrap()) as usize;
    }
    assert_eq!(start, file.len() - 16);
    frames
}

#[test]
fn another_version_is_named() {
    let (_, mut file) = small();
    file[8] = 9;
    let (_, _, error) = read(&file);
    assert_eq!(error.unwrap().to_string(), "the trace is of format version 9; this program reads version 1");
    let (_, _, error) = read(b"ELF or anything else that is long enough");
    assert!(error.unwrap().to_string().starts_with("not a pagewalk trace"));
}

#[test]
fn lengths_that_lie_do_not_allocate() {
    let (_, file) = small();
    for (start, _) in frame_starts(&file) {
        let mut lying = file.clone();
        lying[start + 8..start + 12].copy_from_slice(&(1u32 << 26).to_le_bytes());
        let checksum = crc32fast::hash(&lying[start..start + 28]);
        lying[start + 28..start + 32].copy_from_slice(&checksum.to_le_bytes());
        let (_, _, error) = read(&lying);
        assert!(matches!(error, Some(SourceError::Truncated(_))), "{error:?}");
        lying[start + 11] = 0xff;
        let checksum = crc32fast::hash(&lying[start..start + 28]);
        lying[start + 28..start + 32].copy_from_slice(&checksum.to_le_bytes());
        let (_, _, error) = read(&lying);
        assert!(error.unwrap().to_string().contains("more bytes than the format allows"));
    }
}

#[test]
fn threads_write_the_same_bytes() {
    let (stream, _) = small();
    for (chunk, encoders) in [1, 10, 60, 1 << 20].into_iter().flat_map(|chunk| [0, 1, 3].map(|n| (chunk, n)))
    {
        let disk = Disk::new(usize::MAX);
        let mut writer = Writer::with_encoders(disk.clone(), &header(), chunk, encoders).unwrap();
        stream.play(8, &mut writer);
        assert!(writer.error().is_none());
        let summary = writer.finish().unwrap();
        assert_eq!(disk.file(), stream.to_file(8, chunk));
        assert_eq!(summary.bytes, disk.file().len() as u64);
    }
}

#[test]
fn a_full_disk_leaves_a_trace_that_reads() {
    let (stream, whole) = small();
    for room in (16..whole.len()).step_by(7) {
        let disk = Disk::new(room);
        if let Ok(mut writer) = Writer::with_chunk_records(disk.clone(), &header(), 60) {
            stream.play(8, &mut writer);
            assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert_eq!(disk.file(), whole[..room]);
        }
        let disk = Disk::new(room);
        if let Ok(mut writer) = Writer::with_encoders(disk.clone(), &header(), 60, 2) {
            stream.play(8, &mut writer);
            assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert_eq!(disk.file(), whole[..room]);
        }
    }
}

/// The failure shows while the stream goes on; a later fault of the stream does not hide it.
#[test]
fn a_full_disk_is_told_while_a_thread_writes() {
    let (stream, whole) = small();
    let disk = Disk::new(whole.len() / 2);
    let mut writer = Writer::with_encoders(disk.clone(), &header(), 60, 2).unwrap();
    stream.play(8, &mut writer);
    while writer.error().is_none() {
        writer.on_event(RefIndex(stream.refs), &Event::Marker { id: 7 });
        std::thread::yield_now();
    }
    assert_eq!(writer.error().unwrap().kind(), io::ErrorKind::StorageFull);
    assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.file(), whole[..whole.len() / 2]);
}

/// Writes one batch that breaks the rules; returns the complaint, which is the same if another thread encodes it.
fn complaint(blocks: &Dictionary, spans: &[Span], refs: &[Ref]) -> String {
    let first = RefIndex(0);
    let (space, thread) = (SpaceId(0), ThreadId(1));
    let batch = Batch { space, thread, first, first_instruction: 0, refs, spans, wide: false, blocks };
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &header()).unwrap();
    writer.on_batch(&batch);
    assert!(writer.error().is_some());
    let complaint = writer.finish().unwrap_err().to_string();

    let mut writer = Writer::with_encoders(Disk::new(usize::MAX), &header(), 60, 1).unwrap();
    // The first chunk is encoded here, the next one there.
    writer.on_event(first, &Event::Marker { id: 7 });
    writer.on_event(RefIndex(1), &Event::Marker { id: 7 });
    // A good batch comes before it, in the same chunk.
    let mut dictionary = blocks.clone();
    let id = dictionary.intern(block(0, 1, &[13, 13]));
    if id.0 == 0 {
        let (refs, spans) = ([Ref::from_parts(4096, 13); 2], [Span { block: id, first: 0 }]);
        let good = Batch { first: RefIndex(1), refs: &refs, spans: &spans, blocks: &dictionary, ..batch };
        writer.on_batch(&good);
    }
    writer.on_batch(&Batch { first: RefIndex(3), first_instruction: 1, ..batch });
    // A later fault does not hide it.
    writer.on_batch(&Batch { first: RefIndex(3), spans: &[], refs: &[Ref::from_parts(4096, 13)], ..batch });
    assert_eq!(writer.finish().unwrap_err().to_string(), complaint);
    complaint
}

#[test]
fn batches_that_break_the_rules_are_refused() {
    let mut blocks = Dictionary::default();
    let id = blocks.intern(block(0, 1, &[13, 13]));
    let good = Ref::from_parts(4096, 13);
    let span = |first| Span { block: id, first };
    assert!(complaint(&blocks, &[], &[good]).contains("without a block"));
    assert!(complaint(&blocks, &[span(0)], &[good]).contains("make more"));
    assert!(complaint(&blocks, &[span(0)], &[good; 3]).contains("make 2"));
    assert!(complaint(&blocks, &[span(0), span(1)], &[good; 4]).contains("does not start where"));
    assert!(complaint(&blocks, &[span(0)], &[good, Ref::from_parts(4096, 14)]).contains("kind or size"));
    let unknown = Span { block: BlockId(1), first: 0 };
    assert!(complaint(&blocks, &[unknown], &[]).contains("block 1 is not in the dictionary of 1"));
    blocks.intern(block(0, 1, &[13; 5000]));
    assert!(complaint(&blocks, &[span(0)], &[good; 2]).contains("5000 data references"));
}

#[test]
fn a_large_batch_is_split() {
    let mut stream = Stream { thread: ThreadId(1), ..Stream::default() };
    let wide = stream.blocks.intern(block(0, 2, &[13; 4095]));
    let narrow = stream.blocks.intern(block(64, 2, &[14]));
    for round in 0..6000u64 {
        let block = if round % 50 == 0 { wide } else { narrow };
        stream.execute(block, |slot| VirtAddr(round * 4096 + slot as u64 * 16).0);
    }
    let (steps, _, error) = read(&stream.to_file(6000, 1 << 22));
    assert!(error.is_none(), "{error:?}");
    assert!(steps == stream.steps);
    // Split alike where another thread encodes it.
    let disk = Disk::new(usize::MAX);
    let mut writer = Writer::with_encoders(disk.clone(), &header(), 10_000, 2).unwrap();
    stream.play(6000, &mut writer);
    writer.finish().unwrap();
    assert!(disk.file() == stream.to_file(6000, 10_000));
}

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/small.pwt");

/// Files written by this version stay readable: a fixture made once by `make_the_fixture`.
#[test]
fn the_fixture_reads_as_ever() {
    let file = std::fs::read(FIXTURE).unwrap();
    let (stream, _) = small();
    let (steps, blocks, error) = read(&file);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(steps, stream.steps);
    assert!(blocks.iter().eq(stream.blocks.since(0)));
    let info = info(Cursor::new(&file)).unwrap();
    assert_eq!((info.version, info.header), (1, header()));
    assert_eq!((info.references, info.block_executions, info.instructions, info.blocks), (214, 80, 240, 3));
    assert_eq!((info.chunks, info.frames), (4, 6));
    let events: Vec<_> = info.events.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(events, [("exit", 1), ("map", 1), ("switch", 1)]);
    assert_eq!(info.bytes, file.len() as u64);
    assert_eq!(info.bytes_per_record, file.len() as f64 / 294.0);
    assert_eq!(info.damage, None);
}

#[test]
#[ignore = "makes the fixture anew; for a new version of the format"]
fn make_the_fixture() {
    std::fs::write(FIXTURE, small().1).unwrap();
}

#[test]
fn pages_of_the_usual_size_are_left_out_of_files() {
    let Event::Map(mapping) = map(0x20_0000, 2 << 20) else { unreachable!("it maps") };
    let text = serde_json::to_string(&mapping).unwrap();
    assert!(!text.contains("page_bytes"), "{text}");
    assert_eq!(serde_json::from_str::<Mapping>(&text).unwrap(), mapping);
    let huge = Mapping { page_bytes: 2 << 20, ..mapping };
    let text = serde_json::to_string(&huge).unwrap();
    assert_eq!(serde_json::from_str::<Mapping>(&text).unwrap(), huge);
    for wrong in ["0", "4095", "12288", "1099511627776"] {
        let text = text.replace("2097152}", &format!("{wrong}}}"));
        let error = serde_json::from_str::<Mapping>(&text).unwrap_err().to_string();
        assert!(error.contains(&format!("page_bytes is {wrong}: expected a power of two")), "{error}");
    }
}
