//! The graph by pages, and by functions on pages.

use super::{BlockState, Edge, Part};
use crate::objects::{OwnerId, Owners};
use pagewalk_units::{PAGE_BYTES, Vpn};
use std::collections::BTreeMap;

/// A page of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePage {
    /// The page.
    pub page: Vpn,
    /// The owner of its code.
    pub owner: OwnerId,
    /// The offset of its first byte in the owner's file, if it came from there.
    pub file_offset: Option<u64>,
    /// Executed instructions that begin there.
    pub instructions: u64,
}

/// Calls from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the calling page or node.
    pub caller: usize,
    /// Index of the called page or node.
    pub callee: usize,
    /// How often.
    pub calls: u64,
    /// Instructions executed until these calls returned.
    pub instructions: u64,
}

/// The part of a function on one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Index of its page.
    pub page: usize,
    /// Its name, if known.
    pub function: Option<String>,
    /// Instructions executed.
    pub instructions: u64,
}

/// The call graph.
#[derive(Clone, Debug)]
pub struct CallGraph {
    /// The owners of code.
    pub owners: Owners,
    /// Pages with executed code, by number, then by owner.
    pub pages: Vec<CodePage>,
    /// Calls between pages, by caller, then by callee; including calls within a page.
    pub calls: Vec<Call>,
    parts: Vec<CountedPart>,
    edges: Vec<PartCall>,
}

/// A block's code on one page.
#[derive(Clone, Copy, Debug)]
struct CountedPart {
    page: usize,
    offset: Option<u64>,
    instructions: u64,
}

/// A call from a block's last part to another's first.
#[derive(Clone, Copy, Debug)]
struct PartCall {
    caller: usize,
    callee: usize,
    calls: u64,
    instructions: u64,
}

impl CallGraph {
    pub(super) fn new(owners: Owners, blocks: &[BlockState], parts: &[Part], edges: &[Edge]) -> CallGraph {
        let key = |part: &Part| (part.start.vpn(), part.owner);
        let mut numbers: BTreeMap<(Vpn, OwnerId), usize> = parts.iter().map(|part| (key(part), 0)).collect();
        numbers.values_mut().zip(0..).for_each(|(number, n)| *number = n);
        let page = |(&(page, owner), _)| CodePage { page, owner, file_offset: None, instructions: 0 };
        let mut pages: Vec<CodePage> = numbers.iter().map(page).collect();
        // By block: its first and its last part.
        let mut ends = vec![(usize::MAX, usize::MAX); blocks.len()];
        let counted = |(index, part): (usize, &Part)| {
            let end = &mut ends[part.block as usize];
            *end = (end.0.min(index), index);
            let page = numbers[&key(part)];
            let into = part.start.0 % PAGE_BYTES;
            let instructions = blocks[part.block as usize].executions * u64::from(part.instructions);
            pages[page].instructions += instructions;
            pages[page].file_offset = part.file_offset.map(|offset| offset.wrapping_sub(into));
            CountedPart { page, offset: part.file_offset, instructions }
        };
        let parts: Vec<CountedPart> = parts.iter().enumerate().map(counted).collect();
        let call = |edge: &Edge| PartCall {
            caller: ends[edge.caller as usize].1,
            callee: ends[edge.callee as usize].0,
            calls: edge.calls,
            instructions: edge.instructions,
        };
        // Blocks without code take no part in calls.
        let edges: Vec<PartCall> = edges
            .iter()
            .map(call)
            .filter(|call| call.caller != usize::MAX && call.callee != usize::MAX)
            .collect();
        let calls = joined(edges.iter().map(|call| PartCall {
            caller: parts[call.caller].page,
            callee: parts[call.callee].page,
            ..*call
        }));
        CallGraph { owners, pages, calls, parts, edges }
    }

    /// Instructions executed.
    pub fn instructions(&self) -> u64 {
        self.pages.iter().map(|page| page.instructions).sum()
    }

    /// The graph by functions: `name` returns the function at a file offset. Unnamed code is one node per page.
    pub fn by_functions(&self, mut name: impl FnMut(&str, u64) -> Option<String>) -> (Vec<Node>, Vec<Call>) {
        let keys: Vec<(usize, Option<String>)> = self
            .parts
            .iter()
            .map(|part| {
                let file = self.owners.get(self.pages[part.page].owner).file.as_deref();
                let function = file.zip(part.offset).and_then(|(file, offset)| name(file, offset));
                (part.page, function)
            })
            .collect();
        let mut nodes: BTreeMap<&(usize, Option<String>), (usize, u64)> = BTreeMap::new();
        for (key, part) in keys.iter().zip(&self.parts) {
            nodes.entry(key).or_default().1 += part.instructions;
        }
        nodes.values_mut().zip(0..).for_each(|(node, number)| node.0 = number);
        let number = |part: usize| nodes[&keys[part]].0;
        let calls = joined(self.edges.iter().map(|call| PartCall {
            caller: number(call.caller),
            callee: number(call.callee),
            ..*call
        }));
        let node = |((page, function), (_, instructions)): (&(usize, Option<String>), (usize, u64))| Node {
            page: *page,
            function: function.clone(),
            instructions,
        };
        (nodes.into_iter().map(|(key, value)| node((key, value))).collect(), calls)
    }
}

/// Joins calls between the same two, in order.
fn joined(calls: impl Iterator<Item = PartCall>) -> Vec<Call> {
    let mut all: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    for call in calls {
        let sum = all.entry((call.caller, call.callee)).or_default();
        *sum = (sum.0 + call.calls, sum.1 + call.instructions);
    }
    let call = |((caller, callee), (calls, instructions))| Call { caller, callee, calls, instructions };
    all.into_iter().map(call).collect()
}
