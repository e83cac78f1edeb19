use super::super::Bytes;
use super::*;
use crate::LackeyWriter;
use pagewalk_trace::{Item, Origin, Source, SourceError};
use proptest::prelude::*;
use std::io::BufReader;

/// The text after reading and writing, and the error at its end.
fn round(text: &[u8], buffer_bytes: usize) -> (String, Option<SourceError>) {
    let mut writer = LackeyWriter::new(Vec::new());
    let mut error = None;
    match LackeySource::new(BufReader::with_capacity(buffer_bytes, text)) {
        Ok(mut source) => {
            let (mut refs, mut instructions) = (0, 0);
            loop {
                match source.next_item() {
                    Ok(Some(Item::Batch(batch))) => {
                        assert_eq!((batch.first.0, batch.first_instruction), (refs, instructions));
                        refs += batch.refs.len() as u64;
                        instructions += batch.instructions();
                        writer.write_batch(&batch);
                    }
                    Ok(Some(Item::Event { .. })) => unreachable!("the text has no events"),
                    Ok(None) => break,
                    Err(found) => error = Some(found),
                }
            }
        }
        Err(found) => error = Some(found),
    }
    (String::from_utf8(writer.finish().unwrap()).unwrap(), error)
}

fn message(text: &str) -> String {
    round(text.as_bytes(), 64).1.expect("an error").to_string()
}

fn line() -> impl Strategy<Value = String> {
    let address = prop_oneof![0u64..1 << 57, 0u64..1 << 16, Just(0x1ffeffe7e)];
    let data_bytes = prop::sample::select(vec![1u32, 2, 4, 8, 16, 10, 64, 464, 32768]);
    prop_oneof![
        4 => (address.clone(), 1u32..=255).prop_map(|(address, bytes)| format!("I  {address:08x},{bytes}\n")),
        4 => (prop::sample::select(vec!["L", "S", "M"]), address, data_bytes)
            .prop_map(|(kind, address, bytes)| format!(" {kind} {address:08x},{bytes}\n")),
        1 => "==[0-9]{1,3}== [ -~]{0,40}\n",
    ]
}

proptest! {
    #[test]
    fn text_to_items_to_text_is_the_identity(
        lines in prop::collection::vec(line(), 0..40), times in 1usize..400, buffer_bytes in 1usize..100
    ) {
        let text = lines.concat().repeat(times);
        let without_comments: String = text.split_inclusive('\n').filter(|line| !line.starts_with('=')).collect();
        let (back, error) = round(text.as_bytes(), buffer_bytes);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(back, without_comments);
    }

    #[test]
    fn any_text_ends_in_an_error_or_the_end(text in "[ILSM=,0-9a-f \n]{0,60}", buffer_bytes in 1usize..20) {
        round(text.as_bytes(), buffer_bytes);
    }

    #[test]
    fn a_cut_text_is_told_up_to_the_cut(lines in prop::collection::vec(line(), 1..20), cut: prop::sample::Index) {
        let text = lines.concat();
        let cut = &text[..cut.index(text.len())];
        let start_of_last = cut.rfind('\n').map_or(0, |end| end + 1);
        let whole_lines = &cut[..start_of_last];
        let mut expected: String = whole_lines.split_inclusive('\n').filter(|line| !line.starts_with('=')).collect();
        let (back, error) = round(cut.as_bytes(), 32);
        // A last line may lack its end: if complete otherwise, it counts as whole.
        if back.len() > expected.len() {
            prop_assert!(cut[start_of_last..].contains(','));
            expected += &format!("{}\n", &cut[start_of_last..]);
            prop_assert!(error.is_none());
        } else {
            prop_assert_eq!(error.is_some(), !cut[start_of_last..].trim().is_empty());
        }
        prop_assert_eq!(back, expected);
    }
}

#[test]
fn the_head_names_the_command() {
    let text =
        b"==812== Lackey, an example\n==812== Command: /bin/ls -l\n==812== \nI  00001000,3\n L 1fff0007,8\n";
    let mut source = LackeySource::new(&text[..]).unwrap();
    let header = source.header();
    assert_eq!((header.pid, header.origin, header.program.as_str()), (812, Origin::Import, "/bin/ls"));
    assert_eq!(header.arguments, ["/bin/ls", "-l"]);
    let Ok(Some(Item::Batch(batch))) = source.next_item() else { panic!("no batch") };
    assert_eq!((batch.refs.len(), batch.instructions()), (1, 1));
}

#[test]
fn references_before_the_first_instruction_have_no_code() {
    let mut source =
        LackeySource::new(&b" L 00001000,8\n S 00001008,8\n L 00002000,8\nI  00003000,1\n"[..]).unwrap();
    let Ok(Some(Item::Batch(batch))) = source.next_item() else { panic!("no batch") };
    let shapes: Vec<_> = batch
        .spans
        .iter()
        .map(|span| batch.blocks.get(span.block))
        .map(|block| (block.instructions.len(), block.sites.len()))
        .collect();
    assert_eq!(shapes, [(0, 1), (0, 1), (0, 1), (1, 0)]);
    assert_eq!(batch.spans[0].block, batch.spans[2].block);
}

#[test]
fn an_instruction_of_too_many_references_is_told_in_parts() {
    let mut text = "I  00001000,2\n".to_owned();
    text.extend((0..5000).map(|i| format!(" S {:08x},1\n", 0x5000 + i)));
    text.push_str("I  00001002,2\n");
    let (back, error) = round(text.as_bytes(), 4096);
    assert!(error.is_none());
    assert_eq!(back, text);
}

#[test]
fn wrong_lines_are_named() {
    let forms = "not one of `I  ADDRESS,BYTES`, ` L ADDRESS,BYTES`, ` S ADDRESS,BYTES`, ` M ADDRESS,BYTES` (address \
                 in hexadecimal), nor a message of Valgrind's (`==PID==`, `--PID--`, `**PID**`): delete it, or have \
                 valgrind write the trace apart from all else, by --log-file=FILE";
    let good = "==1== x\nI  00001000,3\n L 00001000,8\n";
    let said = "--812-- WARNING: unhandled amd64-linux syscall: 999\n**812** printed\n";
    assert_eq!(
        round(format!("{said}{}{said}", &good[8..]).as_bytes(), 8).0,
        good[8..],
        "Valgrind's own lines"
    );
    let lines =
        [" X 00001000,3", "I  ,3", "I  00001000", "I  1000,", "I  1g,3", " L 1,2x", "S 0x,4", " M 10,-1"];
    for bad in lines {
        let found = message(&format!("{good}{bad}\n"));
        assert_eq!(found, format!("line 4 is `{bad}`, {forms}"));
        let (back, _) = round(format!("{good}{bad}\nI  00001000,3\n").as_bytes(), 8);
        assert_eq!(back, good[8..], "what came before is told");
    }
    assert_eq!(message("I  12345678123456781,3\n"), format!("line 1 is `I  12345678123456781,3`, {forms}"));
    assert_eq!(message("\x07\n"), format!("line 1 is `\\x07`, {forms}"));
    assert_eq!(message("I  1000,0\n"), "line 1 has an instruction of 0 bytes, not 1 to 255");
    assert_eq!(
        message(" L 1000,11\n"),
        "line 1 has a reference of 11 bytes, a size that records do not know"
    );
    assert_eq!(
        message(" L 200000000000000,1\n"),
        "line 1 refers to address 0x200000000000000, above the 57 bits of a user address"
    );
    assert_eq!(message("I  00001000,3\n L 1000"), "the text ends in the middle of line 2");
}

/// An unambiguous deviation from Lackey's form.
fn decorated(line: &str, how: u8) -> String {
    let line = line.trim_end();
    let (mark, rest) = line.split_at(3.min(line.len()));
    match how {
        _ if line.starts_with('=') => format!("{line}\r\n"),
        0 => format!("{line}\r\n"),
        1 => format!("{line} \t\n"),
        2 => format!("{mark}0x{rest}\n"),
        3 => format!("{}  {}\n", mark.trim(), rest.to_uppercase()),
        4 => format!("{line} 17 hit\n"),
        5 => format!("{line},2\r\n"),
        6 => format!("Sum: 12, of {line}\n"),
        7 => format!("SB {}\n{line}\n", rest.split(',').next().unwrap_or("0")),
        8 => format!("\n# a comment\n==1== more\nHello, world\nI am 3, you?\n{line}\n"),
        9 => format!(
            "{line}\nSYSCALL[1,1](  1) sys_write ( 1, 0x4a2a040, 6 ) --> [async] ... \n\x1b[1mDone\x1b[0m 100 %\n"
        ),
        _ => format!("{line}\n"),
    }
}

proptest! {
    /// Decorated line by line, packed or not, with or without a last line end, a text yields the same as the plain one.
    #[test]
    fn decorated_texts_tell_what_plain_ones_do(
        lines in prop::collection::vec((line(), 0u8..12), 1..60), packed: bool, ended: bool, buffer_bytes in 1usize..100
    ) {
        let plain: String = lines.iter().map(|(line, _)| &**line).filter(|line| !line.starts_with('=')).collect();
        let text: String = lines.iter().map(|(line, how)| decorated(line, *how)).collect();
        // After a first line of Valgrind's, as real files begin.
        let mut text = format!("==7== Lackey, an example\n{text}");
        // A line of Valgrind's counts only with its end.
        if !ended && !text.trim_end().rsplit('\n').next().unwrap().starts_with('=') {
            text.truncate(text.trim_end().len());
        }
        let bytes = if packed { gzip(text.as_bytes()) } else { text.into_bytes() };
        let file: Bytes = Box::new(BufReader::with_capacity(buffer_bytes, std::io::Cursor::new(bytes)));
        let mut source = LackeySource::open(file).unwrap();
        let mut writer = LackeyWriter::new(Vec::new());
        while let Some(item) = source.next_item().unwrap() {
            let Item::Batch(batch) = item else { unreachable!("the text has no events") };
            writer.write_batch(&batch);
        }
        prop_assert_eq!(String::from_utf8(writer.finish().unwrap()).unwrap(), plain);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, bytes).unwrap();
    packer.finish().unwrap()
}

/// The notes on a text after reading.
fn notes(text: &str) -> Vec<String> {
    let mut source = LackeySource::new(text.as_bytes()).unwrap();
    while let Some(_item) = source.next_item().unwrap() {}
    source.notes().sentences()
}

/// Everything that `valgrind --tool=lackey --trace-mem=yes --trace-superblocks=yes --trace-syscalls=yes -v` and a
/// printing program put into one file.
#[test]
fn what_is_passed_over_is_told() {
    let text = "==9== Lackey\n--9-- Valgrind options:\nSB 04000c50\nI  04000c50,3\nHello\nworldI  04000c53,2\n\
                SYSCALL[9,1](  1) sys_write\n --> [pre-fail] Failure(0x26) \n L 1ffeffe7e,8 5\n\
                ==10== Command: ls\nI  04000c55,1\ntwo\nthree\n";
    assert_eq!(round(text.as_bytes(), 16).0, "I  04000c50,3\nI  04000c53,2\n L 1ffeffe7e,8\nI  04000c55,1\n");
    assert_eq!(
        notes(text),
        [
            "4 lines of other text (line 5: `Hello`): what the program printed is passed over; valgrind's \
             --log-file=FILE keeps it apart",
            "2 lines of --trace-syscalls=yes (line 7: `SYSCALL[9,1](  1) sys_write`): passed over",
            "1 line with a third column (line 9: ` L 1ffeffe7e,8 5`): it is passed over; Lackey writes an address and \
             bytes alone",
            "1 line of a second process or program (line 10: `==10== Command: ls`): the references of all are read as \
             one process's; with --trace-children=yes, valgrind's --log-file=FILE.%p writes a file for each",
        ]
    );
    assert_eq!(notes("==9== x\r\nSB 0401\r\nI  0x04000c50,3\r\n\r\n L 10,4"), [""; 0], "nothing is in doubt");
}

/// As in copies of the CS:APP cache lab: blanks at line ends, and no end of the last line.
#[test]
fn the_last_line_may_have_no_end() {
    let (back, error) = round(b" L 10,4 \n S 18,4\n M 20,16", 8);
    assert_eq!((back.as_str(), error.is_none()), (" L 00000010,4\n S 00000018,4\n M 00000020,16\n", true));
    assert_eq!(round(b" L 10,4\nBye", 8).1.map(|e| e.to_string()), None, "what a program printed last");
    for cut in ["I", " L", " L 1", " L 10,", " L 10,46", "==", "==812== Jcc"] {
        let found = message(&format!(" L 10,4\n{cut}"));
        assert_eq!(found, "the text ends in the middle of line 2", "{cut:?}");
    }
}

#[test]
fn other_text_in_front_says_that_the_file_is_another() {
    assert!(message("l 0x1fffff58 1\n").starts_with("line 1 is `l 0x1fffff58 1`, not one of "));
    assert!(message("Hello\n L 10,4\n").ends_with("by --log-file=FILE"));
    assert!(message(" L 10,4\n\x00\x01\n").starts_with("line 2 is `\\x00\\x01`, not one of "));
}

#[test]
fn time_stamps_and_line_ends_of_windows_leave_the_command_known() {
    let text =
        "==00:00:00:00.004 812== Lackey\r\n==00:00:00:00.004 812== Command: /bin/ls -l\r\nI  00001000,3\r\n";
    let source = LackeySource::new(text.as_bytes()).unwrap();
    let header = source.header();
    assert_eq!((header.pid, header.arguments.join(" ").as_str()), (812, "/bin/ls -l"));
    assert_eq!(round(b"I  00001000,3\n--00:00:00:00.100 812-- warns\n", 8).1.map(|e| e.to_string()), None);
}

fn open(bytes: impl Into<Vec<u8>>) -> Result<LackeySource<Bytes>, SourceError> {
    LackeySource::open(Box::new(std::io::Cursor::new(bytes.into())))
}

#[test]
fn files_that_are_no_text_are_named_with_what_unpacks_them() {
    let marks: [(&[u8], &str); 2] =
        [(b"BZh91AY", "bzip2 -dc FILE"), (b"\xff\xfe=\0=\0", "iconv -f UTF-16 -t UTF-8 FILE")];
    for (bytes, command) in marks {
        let Err(error) = open(bytes) else { panic!("{command}: it was read") };
        let found = error.to_string();
        assert!(found.contains(&format!("`{command} | pagewalk trace import")), "{found}");
    }
    let mut marked = open("\u{feff}I  00001000,3\n").unwrap();
    assert!(matches!(marked.next_item(), Ok(Some(Item::Batch(_)))), "a mark of the encoding is no text");
}

#[test]
fn packed_files_that_are_cut_or_damaged_are_told_up_to_there() {
    let text: String =
        (0..20_000u64).map(|i| format!("I  {:08x},3\n", i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff)).collect();
    let packed = gzip(text.as_bytes());
    let ends = |bytes: Vec<u8>| {
        let mut source = open(bytes).unwrap();
        let mut instructions = 0;
        loop {
            match source.next_item() {
                Ok(Some(Item::Batch(batch))) => instructions += batch.instructions(),
                Ok(Some(Item::Event { .. })) => unreachable!("the text has no events"),
                Ok(None) => return (instructions, String::new()),
                Err(error) => return (instructions, error.to_string()),
            }
        }
    };
    assert_eq!(ends(packed.clone()), (20_000, String::new()));
    assert_eq!(
        ends([packed.clone(), packed.clone()].concat()),
        (40_000, String::new()),
        "several parts are one text"
    );
    let (instructions, error) = ends(packed[..packed.len() / 2].to_vec());
    assert!(
        instructions > 1000 && error.starts_with("the packed file ends in the middle of line "),
        "{error}"
    );
    let mut damaged = packed;
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    let (_, error) = ends(damaged);
    assert!(error.contains("damaged in line ") || error.contains(" is `"), "{error}");
}
