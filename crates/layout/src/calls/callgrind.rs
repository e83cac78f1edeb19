//! Writes the graph for Callgrind's tools.
//!
//! The format has no pages. A page takes the place of a source file, named by file and offset, so that
//! `callgrind_annotate` and KCachegrind can group functions by page; objects and functions are themselves.
//!
//! Source: "Callgrind Format Specification", version 1, Valgrind manual.

use super::graph::{Call, CallGraph, Node};
use std::fmt::Write;

impl CallGraph {
    /// The graph in Callgrind's format, for the command `command`; `name` returns the function at a file offset.
    pub fn to_callgrind(&self, command: &str, name: impl FnMut(&str, u64) -> Option<String>) -> String {
        let (nodes, calls) = self.by_functions(name);
        let mut out = String::from("# callgrind format\nversion: 1\ncreator: pagewalk\n");
        // Writing to a string cannot fail.
        let _ = writeln!(out, "cmd: {}\npositions: line\nevents: Ir", line(command));
        let mut rest = calls.as_slice();
        for (index, node) in nodes.iter().enumerate() {
            let own = rest.partition_point(|call| call.caller == index);
            let (calls, others) = rest.split_at(own);
            rest = others;
            self.write_node(&mut out, node, calls, &nodes);
        }
        let _ = writeln!(out, "\ntotals: {}", self.instructions());
        out
    }

    fn write_node(&self, out: &mut String, node: &Node, calls: &[Call], nodes: &[Node]) {
        let [object, page, function] = self.names(node);
        let _ = writeln!(out, "\nob={object}\nfl={page}\nfn={function}\n0 {}", node.instructions);
        for call in calls {
            let [object, page, function] = self.names(&nodes[call.callee]);
            let _ = writeln!(out, "cob={object}\ncfi={page}\ncfn={function}\ncalls={} 0", call.calls);
            let _ = writeln!(out, "0 {}", call.instructions);
        }
    }

    /// Object, page and function of a node.
    fn names(&self, node: &Node) -> [String; 3] {
        let page = &self.pages[node.page];
        let object = self.owners.get(page.owner).name();
        let short = object.rsplit('/').next().unwrap_or(&object);
        let place = match page.file_offset {
            Some(offset) => format!("{short}+{offset:#x}"),
            None => format!("{short}@{}", page.page.start()),
        };
        let function = node.function.clone().unwrap_or_else(|| format!("page {}", page.page.start()));
        [object, place, function].map(|name| line(&name))
    }
}

/// A name on one line.
fn line(name: &str) -> String {
    name.replace(['\n', '\r'], " ")
}
