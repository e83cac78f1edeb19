//! What an importer reads, for tests.

use super::{Format, Input, opened};
use pagewalk_trace::Item;
use std::io::Cursor;

/// The file's references, notes, and the error at the end. Instructions begin with I, and say how they end unless it is
/// unknown.
pub(crate) fn told(importer: Format, file: impl Into<Vec<u8>>) -> (Vec<String>, Vec<String>, Option<String>) {
    let file = Input { name: String::new(), bytes: Box::new(Cursor::new(file.into())), in_folder: false };
    let mut import = match opened(importer, vec![file]) {
        Ok(import) => import,
        Err(error) => return (Vec::new(), Vec::new(), Some(error.to_string())),
    };
    let mut told = Vec::new();
    let error = loop {
        match import.source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                for (index, span) in batch.spans.iter().enumerate() {
                    let block = batch.blocks.get(span.block);
                    let end = format!(" {:?}", block.end).replace(" Other", "");
                    let code = block.instructions.iter();
                    told.extend(code.map(|one| format!("I {:x},{}{end}", one.address.0, one.length)));
                    let refs = &batch.refs[span.first as usize..batch.span_end(index)];
                    told.extend(
                        refs.iter()
                            .map(|r| format!("{:?} {:x},{}", r.kind(), r.address().0, r.size().bytes())),
                    );
                }
            }
            Ok(Some(Item::Event { .. })) => unreachable!("these files have no events"),
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    (told, import.notes.sentences(), error)
}
