use super::super::transcript::told;
use super::super::{Input, open};
use super::*;
use proptest::prelude::*;
use std::io::Cursor;

/// A varint, by division.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push((value % 128 + 128) as u8);
        value /= 128;
    }
    bytes.push(value as u8);
    bytes
}

/// Fields with numbers as values.
fn fields(of: &[(u64, u64)]) -> Vec<u8> {
    of.iter().flat_map(|&(tag, value)| [varint(tag << 3), varint(value)].concat()).collect()
}

/// A message behind its length.
fn framed(message: &[u8]) -> Vec<u8> {
    [varint(message.len() as u64), message.to_vec()].concat()
}

/// The mark, and a header with a requestor's name.
fn header() -> Vec<u8> {
    let name = [&[0x08, 1, 0x12, 3], &b"cpu"[..]].concat();
    let message =
        [&[0x0a, 3], &b"mon"[..], &fields(&[(3, 1_000_000_000_000)]), &[0x22], &framed(&name)].concat();
    [MARK, &framed(&message)].concat()
}

fn packet(command: u64, address: u64, bytes: u64) -> Vec<u8> {
    framed(&fields(&[(1, 500), (2, command), (3, address), (4, bytes)]))
}

#[test]
fn requests_to_read_and_write_become_references_and_others_are_counted() {
    let fetch =
        framed(&fields(&[(1, 1), (2, 1), (3, 0x40_0040), (4, 64), (5, 0x100), (6, 3), (7, 0x40_0040)]));
    let read = framed(&fields(&[(1, 2), (2, 1), (3, 0x7000), (4, 8), (5, 0x1000), (9, 77)]));
    let file = [header(), fetch, read, packet(4, 0x8000, 11), packet(2, 0x7000, 8), packet(1, 0x9000, 0)];
    let file = [file.concat(), packet(26, 0x9000, 8), packet(4, 0xa000, 1)].concat();
    let (read, notes, error) = told(&FORMAT, file);
    assert_eq!(read, ["I 400040,64", "Load 7000,8", "Store 8000,10", "Store a000,1"]);
    assert_eq!(error, None);
    let expected = "2 packets of a command other than ReadReq and WriteReq (packet 4: `command 2`): left out";
    assert!(notes[0].starts_with(expected), "{notes:?}");
    assert_eq!(notes[1], "1 packet of no bytes (packet 5): left out");
    assert!(notes[2].starts_with("1 packet of a size that records do not know (packet 3: `11 bytes`)"));
    assert!(notes[3].starts_with("gem5's packets have physical addresses"), "{notes:?}");
}

#[test]
fn a_file_that_is_cut_anywhere_yields_whole_packets_and_names_the_cut_one() {
    let parts = [header(), packet(1, 0x7000, 8), packet(4, 1 << 40, 4)];
    let file = parts.concat();
    let ends: Vec<usize> = (1..=3).map(|n| parts[..n].concat().len()).collect();
    for length in 0..file.len() {
        let (read, _, error) = told(&FORMAT, &file[..length]);
        let whole = ends.iter().filter(|&&end| end <= length).count();
        assert_eq!(read.len(), whole.saturating_sub(1), "{length} bytes");
        let expected = match (whole, ends.contains(&length)) {
            (_, true) => None,
            (0, _) if length < 4 => Some("the file ends in the middle of its mark".to_owned()),
            (0, _) if length == 4 => Some("the file ends before its header".to_owned()),
            (0, _) => Some("the file ends in the middle of the header".to_owned()),
            (whole, _) => Some(format!("the file ends in the middle of packet {whole}")),
        };
        assert_eq!(error, expected, "{length} bytes");
    }
}

#[test]
fn other_traces_of_gem5_are_refused_by_name() {
    let of = |fourth| {
        let message = [&[0x0a, 3], &b"cpu"[..], &fields(&[(3, 1000), (4, fourth)])].concat();
        told(&FORMAT, [MARK, &framed(&message)].concat()).2.unwrap()
    };
    assert!(of(120).contains("an elastic trace"), "{}", of(120));
    assert!(of(1).contains("trace of instructions (`src/proto/inst.proto`)"), "{}", of(1));
    let error = told(&FORMAT, [MARK, &framed(&fields(&[(3, 1000)]))].concat()).2.unwrap();
    assert!(error.starts_with("the header has no object"), "{error}");
}

#[test]
fn damage_is_named_by_packet_after_all_before_it() {
    let good = [header(), packet(1, 0x7000, 8)].concat();
    let long = [&[0xff; 9][..], &[1]].concat();
    let cases: [(Vec<u8>, &str); 6] = [
        (long, "packet 2 is said to have 18446744073709551615 bytes, more than 1048576"),
        (vec![0xff; 11], "packet 2 has a length of more than 64 bits"),
        (framed(&fields(&[(1, 1), (2, 1), (3, 0x7000)])), "packet 2 has no tick, command, address or size"),
        (framed(b""), "packet 2 has no tick, command, address or size"),
        (framed(&[0x08, 0xff]), "packet 2 is damaged ("),
        (packet(1, 1 << 60, 8), "packet 2 refers to address 0x1000000000000000, above the 57 bits"),
    ];
    for (bad, expected) in cases {
        let (read, _, error) = told(&FORMAT, [&good[..], &bad, &packet(4, 0x8000, 8)].concat());
        let error = error.unwrap();
        assert!(read.len() == 1 && error.starts_with(expected), "{error}");
    }
}

#[test]
fn files_are_recognised_by_their_mark() {
    let file = [header(), packet(1, 0x7000, 8)].concat();
    let file = Input { name: "f".to_owned(), bytes: Box::new(Cursor::new(file)), in_folder: false };
    assert_eq!(open(vec![file], None).map(|opened| opened.format.name).ok(), Some("gem5"));
}

proptest! {
    /// Batches end at no packet's expense: more packets than a batch has room for.
    #[test]
    fn packets_read_in_batches_are_read_alike(
        parts in prop::collection::vec((0u64..6, 0u64..1 << 40, 0u64..70, any::<bool>()), 1..100),
        copies in 1usize..100,
    ) {
        let (mut file, mut expected) = (header(), Vec::new());
        for &(command, address, bytes, is_fetch) in parts.iter().cycle().take(parts.len() * copies) {
            let flags = if is_fetch { 0x1100 } else { 0 };
            file.extend(framed(&fields(&[(1, 9), (2, command), (3, address), (4, bytes), (5, flags)])));
            let known = (0..=bytes).rev().find(|&size| Size::of_bytes(size as u32).is_some()).unwrap_or(0);
            match (command, is_fetch) {
                _ if bytes == 0 => {}
                (1, true) => expected.push(format!("I {address:x},{bytes}")),
                (1, false) => expected.push(format!("Load {address:x},{known}")),
                (4, _) => expected.push(format!("Store {address:x},{known}")),
                _ => {}
            }
        }
        let (read, _, error) = told(&FORMAT, file);
        prop_assert_eq!((read, error), (expected, None));
    }

    #[test]
    fn any_bytes_end_in_an_error_or_the_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        told(&FORMAT, [header(), bytes.clone()].concat());
        told(&FORMAT, [MARK, &bytes[..]].concat());
    }
}
