//! Each way to break the stream's rules, by name.

use super::*;

/// The fault of a stream that consists of `words`.
fn fault(words: Vec<u64>) -> BadWord {
    let mut chunk = Chunk { number: 7, skipped: 100, words, at: 0 };
    let mut decoder = Decoder::new(SpaceId(0));
    loop {
        match decoder.step(&mut chunk) {
            Ok(DecodeStep::NeedWords) => panic!("no fault"),
            Ok(_) => {}
            Err(error) => {
                assert_eq!((error.chunk, error.word), (7, 100 + chunk.at));
                return error.fault;
            }
        }
    }
}

#[test]
fn each_fault_has_its_name() {
    let shape = Shape {
        instruction_lengths: vec![4, 4],
        slots: vec![(0, 1, 8), (1, 2, 8), (1, 0, 0)],
        exits: vec![(1, 1), (3, 2)],
        end: 0,
    };
    let with = |rest: &[u64]| fault([&event(kind::BLOCK, &shape.payload(5)), rest].concat());
    assert_eq!(with(&[64]), BadWord::NoHeader(64));
    assert_eq!(with(&[block_header(6, 0)]), BadWord::UndefinedBlock(6));
    assert_eq!(with(&event(kind::BLOCK, &shape.payload(5))), BadWord::RedefinedBlock(5));
    assert_eq!(with(&[block_header(5, 3), 64, 64]), BadWord::NoExit { number: 5, slots: 2 });
    assert_eq!(with(&[block_header(5, 3), 64, 64, 0, 64]), BadWord::NoHeader(64));
    assert_eq!(with(&[block_header(5, 3), 1 << 57]), BadWord::Address { number: 5, address: 1 << 57 });
    let padding_used = BadWord::PaddingUsed { number: 5, slot: 2, address: 3 };
    assert_eq!(with(&[block_header(5, 3), 1, 2, 3]), padding_used);
    assert_eq!(with(&[event_header(40, 0)]), BadWord::UnknownEvent(40));
    assert_eq!(
        with(&[event_header(kind::MARKER, 2), 0]),
        BadWord::EventTooLong { kind: kind::MARKER, words: 2, left: 1 }
    );
    let payload = |kind, what| BadWord::Payload { kind, what };
    assert_eq!(with(&event(kind::MARKER, &[])), payload(kind::MARKER, "it is too short"));
    assert_eq!(with(&event(kind::MARKER, &[1, 2])), payload(kind::MARKER, "it has words left over"));
    let beyond = payload(kind::EXEC, "a text reaches beyond its end");
    assert_eq!(with(&event(kind::EXEC, &[u64::MAX, 2])), beyond);
    let end_of_memory = payload(kind::UNMAP, "a range reaches beyond the end of memory");
    assert_eq!(with(&event(kind::UNMAP, &[4096, u64::MAX - 4096])), end_of_memory);
    let pages = payload(kind::MAP, "a mapping is not of whole pages of its size");
    for (start, bytes, log2) in [(4096, 1 << 21, 21), (1 << 21, 4096, 21), (0, 1 << 21, 11), (0, 1 << 21, 40)]
    {
        assert_eq!(with(&event(kind::MAP, &[start, bytes, 1 | log2 << 16, 0, 0])), pages);
    }
    let mode = payload(kind::THP_DISABLE, "unknown mode of forbidding huge pages");
    assert_eq!(with(&event(kind::THP_DISABLE, &[3])), mode);
    assert_eq!(with(&event(kind::SPIN, &[6, 1])), BadWord::UndefinedBlock(6));
    let many = payload(kind::SPIN, "more instructions than 64 bits count");
    assert_eq!(with(&event(kind::SPIN, &[5, u64::MAX])), many);
    let beyond = MAX_BLOCKS as u32;
    assert_eq!(with(&event(kind::BLOCK, &shape.payload(beyond))), BadWord::TooMuchCode);
    let mut odd = shape.clone();
    odd.slots[0].2 = 11;
    let size = BadWord::ReferenceSize { number: 6, slot: 0, bytes: 11 };
    assert_eq!(with(&event(kind::BLOCK, &odd.payload(6))), size);
    let mut odd = shape.clone();
    odd.exits = vec![(1, 1), (1, 1), (3, 2)];
    let wrong = |what| BadWord::Definition { number: 6, what };
    let order = wrong("its exits are not in order of their slots");
    assert_eq!(with(&event(kind::BLOCK, &odd.payload(6))), order);
    odd.exits = vec![(2, 1), (3, 2)];
    let after = wrong("a slot before an exit belongs to an instruction after it");
    assert_eq!(with(&event(kind::BLOCK, &odd.payload(6))), after);
}
