//! Global pages of files, for engines that look pages up one by one. `pass/global.rs` has the rules.

use pagewalk_mm::FilePage;
use pagewalk_translate::Asid;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Global pages by number.
#[derive(Default)]
pub(crate) struct GlobalPages(FxHashMap<u64, GlobalPage>);

struct GlobalPage {
    holds: FilePage,
    users: BTreeSet<Asid>,
}

/// What a space has at a page that it touches first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FirstTouch {
    /// The global page.
    Global,
    /// Its own page.
    Own,
    /// Its own page, as each of these spaces from now on: the page is global no longer.
    Ends(BTreeSet<Asid>),
}

impl GlobalPages {
    /// A space touches a page first, where it maps `file`. `others_own`: whether another space has its own page there.
    pub fn touch(
        &mut self,
        asid: Asid,
        vpn: u64,
        file: Option<FilePage>,
        others_own: impl FnOnce() -> bool,
    ) -> FirstTouch {
        match (file, self.0.get_mut(&vpn)) {
            (Some(file), Some(page)) if file == page.holds => {
                page.users.insert(asid);
            }
            (_, Some(_)) => return FirstTouch::Ends(self.0.remove(&vpn).expect("it is there").users),
            (Some(file), None) if !others_own() => {
                self.0.insert(vpn, GlobalPage { holds: file, users: BTreeSet::from([asid]) });
            }
            (_, None) => return FirstTouch::Own,
        }
        FirstTouch::Global
    }

    /// A space that uses a global page now maps `file` there. Whether it goes on using the page.
    pub fn remapped(&mut self, asid: Asid, vpn: u64, file: Option<&FilePage>) -> bool {
        let Some(page) = self.0.get_mut(&vpn) else { return true };
        if file == Some(&page.holds) {
            return true;
        }
        page.users.remove(&asid);
        if page.users.is_empty() {
            self.0.remove(&vpn);
        }
        false
    }
}
