mod zip;

use self::zip::{Member, archive};
use super::*;
use proptest::prelude::*;
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut packer = ::zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    packer.include_checksum(true).unwrap();
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 1);
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let frame = lz4_flex::frame::FrameInfo::new().content_checksum(true).block_checksums(true);
    let mut packer = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut packer = snap::write::FrameEncoder::new(Vec::new());
    packer.write_all(bytes).unwrap();
    packer.into_inner().unwrap()
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    archive(&[Member::deflated("trace", bytes)])
}

type Pack = fn(&[u8]) -> Vec<u8>;

const PACKERS: [(&str, Pack); 6] =
    [("gzip", gzip), ("zstd", zstd), ("xz", xz), ("lz4", lz4), ("snappy", snappy), ("zip", zipped)];

/// The contents, or the error.
fn read(packed: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    let mut file = unpacked(Box::new(Cursor::new(packed))).map_err(|error| error.to_string())?;
    file.read_to_end(&mut contents).map_err(|error| packing_error(error, "it").to_string())?;
    Ok(contents)
}

/// Bytes that pack by about a half.
fn sample(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 28) as u8).collect()
}

#[test]
fn containers_are_unpacked_alone_and_inside_each_other() {
    let contents = sample(300_000);
    assert_eq!(read(contents.clone()).unwrap(), contents);
    for (outer, pack) in PACKERS {
        assert_eq!(read(pack(&contents)).unwrap(), contents, "{outer}");
        for (inner, pack_first) in PACKERS {
            assert_eq!(read(pack(&pack_first(&contents))).unwrap(), contents, "{inner} in {outer}");
        }
        let thrice = pack(&gzip(&gzip(&contents)));
        assert_eq!(read(thrice).unwrap(), gzip(&contents), "only two are removed");
    }
}

#[test]
fn what_is_packed_piece_by_piece_is_one_file() {
    let (a, b) = (sample(700_000), sample(10));
    for (name, pack) in PACKERS.iter().filter(|(name, _)| *name != "zip") {
        assert_eq!(read([pack(&a), pack(&b)].concat()).unwrap(), [&a[..], &b].concat(), "{name}");
    }
}

/// An end between pieces that could each stand alone cannot be told from a whole file.
#[test]
fn a_container_cut_anywhere_is_not_read_as_whole() {
    let contents = sample(2000);
    for (name, pack) in PACKERS.iter().filter(|(name, _)| *name != "snappy") {
        let packed = pack(&contents);
        // What follows the mark of a zip archive's directory is not needed.
        let needed = if *name == "zip" {
            4 + packed.windows(4).position(|w| w == b"PK\x01\x02").unwrap()
        } else {
            packed.len()
        };
        for end in HEAD_BYTES..needed {
            let error = read(packed[..end].to_vec());
            assert!(error.is_err(), "{name} cut after {end} of {} bytes", packed.len());
        }
    }
}

#[test]
fn a_damaged_container_is_an_error_or_tells_the_same() {
    let contents = sample(2000);
    // A part of snappy whose type is damaged may be padding.
    for (name, pack) in PACKERS.iter().filter(|(name, _)| *name != "snappy") {
        let packed = pack(&contents);
        for at in HEAD_BYTES..packed.len() {
            for bit in [1, 0x80] {
                let mut damaged = packed.clone();
                damaged[at] ^= bit;
                if let Ok(found) = read(damaged) {
                    assert!(found == contents, "{name}: bit {bit} of byte {at}");
                }
            }
        }
    }
}

#[test]
fn bombs_are_read_piece_by_piece() {
    const BYTES: usize = 64 << 20;
    for (name, pack) in PACKERS {
        let packed = pack(&vec![0; BYTES]);
        let mut file = unpacked(Box::new(Cursor::new(packed))).unwrap();
        let mut read = 0;
        loop {
            let piece = file.fill_buf().unwrap().len();
            assert!(piece <= PIECE_BYTES, "{name}: {piece} bytes at a time");
            if piece == 0 {
                break;
            }
            read += piece;
            file.consume(piece);
        }
        assert_eq!(read, BYTES, "{name}");
    }
}

#[test]
fn dictionaries_larger_than_allowed_are_refused() {
    // A zstd frame with a window of 2^31 bytes.
    let error = read(b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00".to_vec()).unwrap_err();
    assert!(error.contains("damaged"), "{error}");
    // An xz stream whose block asks for a dictionary of 4 GiB less one byte; the checksum is right.
    let mut block = vec![2, 0, 0x21, 1, 40, 0, 0, 0];
    block.extend(crc32fast::hash(&block).to_le_bytes());
    let flags = [0, 1];
    let mut stream = b"\xfd7zXZ\x00".to_vec();
    stream.extend(flags);
    stream.extend(crc32fast::hash(&flags).to_le_bytes());
    stream.extend(block);
    stream.extend([0; 16]);
    let error = read(stream).unwrap_err();
    assert!(error.contains("emory"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_behind_a_mark_end_in_an_error_or_the_end(which in 0..CONTAINERS.len(), rest: Vec<u8>) {
        let _ = read([CONTAINERS[which].mark, &rest].concat());
    }
}
