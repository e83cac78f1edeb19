use super::*;
use pagewalk_trace::{Item, Origin, Source, SourceError};
use proptest::prelude::*;
use std::io::BufReader;

/// What the text becomes when it is read and written again, and the error at its end.
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
        let whole_lines = &cut[..cut.rfind('\n').map_or(0, |end| end + 1)];
        let expected: String = whole_lines.split_inclusive('\n').filter(|line| !line.starts_with('=')).collect();
        let (back, error) = round(cut.as_bytes(), 32);
        prop_assert_eq!(back, expected);
        prop_assert_eq!(error.is_some(), cut.len() > whole_lines.len());
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
                 in hexadecimal), nor a message of Valgrind's (`==PID==`, `--PID--`, `**PID**`)";
    let good = "==1== x\nI  00001000,3\n L 00001000,8\n";
    let said = "--812-- WARNING: unhandled amd64-linux syscall: 999\n**812** printed\n";
    assert_eq!(
        round(format!("{said}{}{said}", &good[8..]).as_bytes(), 8).0,
        good[8..],
        "Valgrind's own lines"
    );
    let lines =
        ["", "I 00001000,3", " X 00001000,3", "I  ,3", "I  00001000", "I  1000,", "I  1g,3", " L 1,2 "];
    for bad in lines.into_iter().chain(["=1", "--x-- y", "--1- y"]) {
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
