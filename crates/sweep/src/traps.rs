//! Machines that are also simulated by traps: the study's key `by_traps`.

use crate::study::MachineVariant;
use pagewalk_report::sweep::schema::Value;
use pagewalk_sim::TrapSpec;
use pagewalk_translate::NestedMisses;

/// The rules for nested misses, with their names in results.
const RULES: [(&str, NestedMisses); 2] =
    [("with_parent", NestedMisses::WithParent), ("counted", NestedMisses::Counted)];

/// The value of both parameters for machines that are simulated in full beside those.
const IN_FULL: &str = "no";

impl MachineVariant {
    /// The parameter for the slots of the host's TLB.
    pub const BY_TRAPS: &str = "by_traps";
    /// The parameter for the rule for nested misses.
    pub const NESTED: &str = "nested_misses";

    /// The machine in full and, if there are numbers of slots of the host's TLB, by traps on each, by both rules for
    /// nested misses.
    pub(crate) fn also_by_traps(self, slots: &[u32]) -> Vec<MachineVariant> {
        if slots.is_empty() {
            return vec![self];
        }
        let by_traps = |host: u32| {
            let of = &self;
            RULES.into_iter().map(move |(rule, nested)| {
                let mut variant = MachineVariant { traps: Some(TrapSpec { host, nested }), ..of.clone() };
                let given = [
                    (Self::BY_TRAPS, Value::Integer(host.into())),
                    (Self::NESTED, Value::Text(rule.to_owned())),
                ];
                variant.parameters.extend(given.map(|(key, value)| (key.to_owned(), value)));
                variant
            })
        };
        let mut full = self.clone();
        let given =
            [Self::BY_TRAPS, Self::NESTED].map(|key| (key.to_owned(), Value::Text(IN_FULL.to_owned())));
        full.parameters.extend(given);
        std::iter::once(full).chain(slots.iter().copied().flat_map(by_traps)).collect()
    }

    /// Refuses machines that traps cannot simulate.
    pub(crate) fn check_traps(&self) -> Result<(), String> {
        if self.traps.is_some() && self.machine.software().is_none() {
            return Err(
                "by_traps is for software-managed TLBs with [walker.mapped], such as mips_r2000's".into()
            );
        }
        Ok(())
    }
}
