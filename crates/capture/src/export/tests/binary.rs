//! ChampSim, libCacheSim and Parquet.

use super::*;
use crate::export::rows::{COLUMNS, each_row};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// What each record says of branches: whether it is one and is taken, and its registers.
fn champsim_branches(file: &[u8]) -> Vec<([u8; 2], [u8; 6])> {
    let (records, rest) = file.as_chunks::<64>();
    assert!(rest.is_empty());
    let branch = |record: &[u8; 64]| ([record[8], record[9]], record[10..16].try_into().unwrap());
    records.iter().map(branch).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn champsim_says_every_load_and_store_of_each_page(steps in any_stream()) {
        let mut expected = Vec::new();
        for (instruction, references) in stream::plain(&steps) {
            let (address, _) = instruction.unwrap_or((0x1000, 0));
            let of = |kinds: [Kind; 2]| {
                let own = references.iter().filter(move |(kind, ..)| kinds.contains(kind));
                own.flat_map(|&(_, address, bytes)| pages(address, bytes)).collect::<Vec<u64>>()
            };
            let (loads, stores) = (of([Kind::Load, Kind::Modify]), of([Kind::Store, Kind::Modify]));
            let (mut loads, mut stores) = (loads.chunks(4), stores.chunks(2));
            let mut is_first = true;
            loop {
                let (loads, stores) = (loads.next(), stores.next());
                if (loads, stores) == (None, None) && !is_first {
                    break;
                }
                is_first = false;
                expected.push(format!("I {address:x}"));
                let line = |kind: &str, place: u64| format!("{kind} {place:x},{}", 8.min(4096 - place % 4096));
                expected.extend(loads.unwrap_or_default().iter().map(|&place| line("Load", place)));
                expected.extend(stores.unwrap_or_default().iter().map(|&place| line("Store", place)));
            }
        }
        // Lengths of instructions are guessed from the distance to the next record.
        let told = round("champsim", &steps).into_iter();
        let told: Vec<String> = told
            .map(|line| if line.starts_with('I') { line.split(',').next().unwrap().to_owned() } else { line })
            .collect();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn oracle_says_every_page_and_when_it_is_next(steps in any_stream()) {
        let pages: Vec<u64> = stream::plain(&steps)
            .flat_map(|(_, references)| references)
            .flat_map(|(_, address, bytes)| pages(address, bytes))
            .map(|place| place / 4096)
            .collect();
        let (file, _) = exported(exporter("oracle-pages").unwrap(), "", &steps);
        let expected: Vec<u8> = pages.iter().enumerate().flat_map(|(n, page)| {
            let next = pages[n + 1..].iter().position(|other| other == page).map_or(-1, |more| (n + 1 + more) as i64);
            let mut record = vec![0; 4];
            record.extend(page.to_le_bytes());
            record.extend(4096u32.to_le_bytes());
            record.extend(next.to_le_bytes());
            record
        }).collect();
        prop_assert_eq!(file, expected);
        let loads: Vec<String> = pages.iter().map(|page| format!("Load {:x},1", page * 4096)).collect();
        prop_assert_eq!(round("oracle-pages", &steps), loads);
    }

    #[test]
    fn parquet_has_every_row(steps in any_stream()) {
        let (file, _) = exported(exporter("parquet").unwrap(), "", &steps);
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
            assert_eq!(names, COLUMNS);
            let fields = row.get_column_iter().map(|(_, field)| match field {
                Field::Null => "none".to_owned(),
                Field::Str(text) => text.clone(),
                number => number.to_string(),
            });
            fields.collect::<Vec<_>>().join(" ")
        }).collect();
        let mut expected = Rows::default();
        feed(&steps, &mut expected);
        prop_assert_eq!(rows, expected.0);
    }
}

/// Rows as text.
#[derive(Default)]
struct Rows(Vec<String>);

impl pagewalk_trace::Analysis for Rows {
    fn on_batch(&mut self, batch: &pagewalk_trace::Batch<'_>) {
        each_row(batch, |row| {
            let instruction = row.instruction.map_or("none".to_owned(), |address| address.to_string());
            let (time, thread, address, bytes) = (row.time, row.thread, row.address, row.bytes);
            self.0.push(format!("{time} {thread} {instruction} {address} {bytes} {}", row.kind.name()));
            Ok(())
        })
        .unwrap();
    }
}

/// As `inc/instruction.h` of ChampSim tells branches apart.
fn branch_type(registers: [u8; 6]) -> &'static str {
    let (to, from) = registers.split_at(2);
    let reads_other = from.iter().any(|register| ![0, 6, 25, 26].contains(register));
    match (
        from.contains(&6),
        from.contains(&26),
        from.contains(&25),
        reads_other,
        to.contains(&6),
        to.contains(&26),
    ) {
        (_, _, _, _, _, false) => "none",
        (false, _, false, false, _, true) => "jump",
        (false, false, false, true, _, true) => "indirect jump",
        (false, true, true, false, false, true) => "conditional",
        (true, true, false, false, true, true) => "call",
        (true, true, false, true, true, true) => "indirect call",
        (true, false, _, _, true, true) => "return",
        _ => "other",
    }
}

#[test]
fn champsim_knows_branches_and_registers_by_the_code() {
    let codes: [(&[u8], &str, [u8; 2]); 9] = [
        (&[0x48, 0x8b, 0x03], "none", [0, 0]),
        (&[0x75, 0x02], "conditional", [1, 1]),
        (&[0xeb, 0x10], "jump", [1, 1]),
        (&[0xff, 0xe0], "indirect jump", [1, 1]),
        (&[0xff, 0x25, 0, 0, 0, 0], "indirect jump", [1, 1]),
        (&[0xe8, 0, 0, 0, 0], "call", [1, 1]),
        (&[0xff, 0xd0], "indirect call", [1, 1]),
        (&[0xc3], "return", [1, 1]),
        (&[0x0f, 0x05], "none", [0, 0]),
    ];
    let steps: Vec<Step> = (1u64..)
        .zip(&codes)
        .map(|(n, (code, ..))| {
            let Step::Block(thread, mut block, refs) = instruction(n * 0x1000, code.len() as u8, &[]) else {
                unreachable!("it is a block")
            };
            block.code = (*code).into();
            Step::Block(thread, block, refs)
        })
        .chain([instruction(0x9_0000, 4, &[]), instruction(0x9_0004, 4, &[]), instruction(0x9_1000, 4, &[])])
        .collect();
    let records = champsim_branches(&exported(exporter("champsim").unwrap(), "", &steps).0);
    for ((branch, registers), (code, kind, expected)) in records.iter().zip(&codes) {
        assert_eq!((branch_type(*registers), *branch), (*kind, *expected), "{code:x?}");
    }
    // `mov rax, [rbx]`, with Pin's numbers.
    assert_eq!(records[0].1, [10, 0, 7, 0, 0, 0]);
    let without_code: Vec<_> =
        records[codes.len()..].iter().map(|record| (branch_type(record.1), record.0)).collect();
    assert_eq!(without_code, [("none", [0, 0]), ("jump", [1, 1]), ("none", [0, 0])], "the second one jumps");
}
