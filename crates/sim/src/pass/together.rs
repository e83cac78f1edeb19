//! Checks which designs a pass can simulate together.

use crate::error::PassError;
use crate::spec::DesignSpec;
use pagewalk_translate::MachineSpec;

/// Checks that a pass can simulate `specs` together; `machine` is the first's.
pub(crate) fn check_together(specs: &[DesignSpec], machine: &MachineSpec) -> Result<(), PassError> {
    let builds = |spec: &&DesignSpec| spec.kernel.is_some() || spec.policy.may_be_huge();
    if let Some(spec) = specs.iter().filter(builds).find(|spec| !spec.fits_pass()) {
        return Err(PassError::Unfit(spec.name.clone()));
    }
    if let Some(side) = specs.iter().find(|spec| spec.machine.data_side.is_some()) {
        return Err(PassError::InOrder(side.machine.name.clone()));
    }
    if let Some(other) = specs.iter().map(|spec| &spec.machine).find(|other| other.paging != machine.paging) {
        return Err(PassError::Paging {
            machine: machine.name.clone(),
            its: machine.paging,
            other: other.name.clone(),
            others: other.paging,
        });
    }
    Ok(())
}
