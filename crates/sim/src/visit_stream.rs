//! Visits of a structure's kernel and servers, as a stream.

use pagewalk_mm::structure::Reference;
use pagewalk_trace::{Batch, Block, BlockEnd, Dictionary, Instruction, Ref, Site, Span};
use pagewalk_translate::Asid;
use pagewalk_units::{Access, BlockId, Kind, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;

/// References of visitors as a stream: a fetch is an execution of an instruction on its page.
#[derive(Default)]
pub(crate) struct VisitStream {
    blocks: Dictionary,
    refs: Vec<Ref>,
    spans: Vec<Span>,
    /// Blocks by page and kind of reference.
    known: FxHashMap<(VirtAddr, u8), BlockId>,
}

/// A word, as wide as the narrowest machine's.
const WORD: Size = Size::from_code(2);

impl VisitStream {
    /// References of a visitor.
    pub fn batch(&mut self, asid: Asid, references: &[Reference]) -> Batch<'_> {
        self.refs.clear();
        self.spans.clear();
        for &Reference { address, kind } in references {
            let access = Access { kind, size: WORD };
            let is_fetch = kind == Kind::Fetch;
            // Data references of one kind share a block, whatever their page.
            let key = (if is_fetch { address } else { VirtAddr(0) }, kind as u8);
            let block = *self.known.entry(key).or_insert_with(|| {
                let instruction = Instruction { address, length: WORD.bytes() as u8 };
                let site = Site { instruction: 0, access };
                self.blocks.intern(Block {
                    instructions: is_fetch.then_some(instruction).into_iter().collect(),
                    sites: (!is_fetch).then_some(site).into_iter().collect(),
                    code: Box::default(),
                    end: BlockEnd::Jump,
                })
            });
            self.spans.push(Span { block, first: self.refs.len() as u32 });
            if !is_fetch {
                self.refs.push(Ref::new(address, access));
            }
        }
        Batch {
            space: SpaceId(asid.index() as u32),
            thread: ThreadId(0),
            first: RefIndex(0),
            first_instruction: 0,
            refs: &self.refs,
            spans: &self.spans,
            wide: false,
            blocks: &self.blocks,
        }
    }
}
