//! Detects whether a guest's free memory returns to its hypervisor: "free page reporting" by the virtio balloon (Linux
//! 5.7).
//!
//! Returned memory comes back at its first touch, which waits until the hypervisor has found and cleared a page. So the
//! same fault takes much longer at one time than at another.

use super::memory::BASE;
use std::fs;
use std::path::Path;

/// The balloon's virtio device number.
const BALLOON: &str = "0x0005";
/// The bit of `VIRTIO_BALLOON_F_REPORTING` in the device's `features`.
const REPORTING: usize = 5;
/// The kernel's setting under `/sys`, from Linux 5.14 on.
const SETTING: &str = "module/page_reporting/parameters/page_reporting_order";
/// Order of reported blocks without the setting: 2 MiB.
const ORDER_UNSET: u32 = 9;
/// The order of the largest free blocks (`MAX_PAGE_ORDER`).
const ORDER_MAX: u32 = 10;

/// Free memory is returned to the hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreePageReporting {
    /// The setting's value; none on a kernel without it.
    order: Option<u32>,
}

impl FreePageReporting {
    /// The least size of a reported free block, in bytes.
    pub fn block_bytes(&self) -> u64 {
        (BASE as u64) << self.order.unwrap_or(ORDER_UNSET)
    }

    /// How to keep free memory in the guest.
    pub fn enable(&self) -> String {
        let never = ORDER_MAX + 1;
        match self.order {
            Some(order) => format!(
                "while you measure, as root `echo {never} > /sys/{SETTING}`, afterwards {order} again; where the \
                 kernel refuses {never}, {ORDER_MAX} leaves the guest all blocks below 4 MiB"
            ),
            None => {
                "a hypervisor that leaves its guests their free memory, or Linux 5.14 or later, which has a \
                     setting for it"
                    .to_owned()
            }
        }
    }
}

/// Reporting in the guest with this `/sys`; none if off.
pub fn free_page_reporting(sys: &Path) -> Option<FreePageReporting> {
    let mut devices = fs::read_dir(sys.join("bus/virtio/devices")).ok()?.flatten();
    devices.find(|device| is_reporting(&device.path()))?;
    let order = match fs::read_to_string(sys.join(SETTING)) {
        // -1: nobody has requested reports.
        Ok(text) => Some(text.trim().parse().ok().filter(|&order: &u32| order <= ORDER_MAX)?),
        Err(_) => None,
    };
    Some(FreePageReporting { order })
}

/// Whether the device is a balloon whose driver and hypervisor agreed on reporting.
fn is_reporting(device: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(device.join(name)).unwrap_or_default();
    read("device").trim() == BALLOON && read("features").as_bytes().get(REPORTING) == Some(&b'1')
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn write(sys: &TempDir, path: &str, text: &str) {
        let path = sys.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn host(device: &str, features: &str) -> TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (name, device, features) in [("virtio0", "0x0002", "111111"), ("virtio1", device, features)] {
            write(&sys, &format!("bus/virtio/devices/{name}/device"), &format!("{device}\n"));
            write(&sys, &format!("bus/virtio/devices/{name}/features"), &format!("{features}\n"));
        }
        sys
    }

    #[test]
    fn a_balloon_that_reports_is_found() {
        let found = |sys: &TempDir| free_page_reporting(sys.path());
        let guest = host("0x0005", "0110010100");
        let reporting = found(&guest).unwrap();
        assert_eq!(reporting.block_bytes(), 2 << 20);
        assert!(reporting.enable().contains("5.14"), "there is no setting");
        assert_eq!(found(&host("0x0005", "0110000100")), None, "it does not report");
        assert_eq!(found(&host("0x0005", "01100")), None, "nor one with few features");
        assert_eq!(found(&host("0x0001", "0110010100")), None, "another device");
        assert_eq!(found(&tempfile::tempdir().unwrap()), None, "no guest");
    }

    #[test]
    fn the_setting_says_from_which_size_on() {
        let guest = host("0x0005", "0110010100");
        let with = |order: &str| {
            write(&guest, SETTING, order);
            free_page_reporting(guest.path())
        };
        assert_eq!(with("0\n").unwrap().block_bytes(), 4096);
        assert_eq!(with("10\n").unwrap().block_bytes(), 4 << 20);
        let enable = with("9\n").unwrap().enable();
        assert!(enable.contains(&format!("echo 11 > /sys/{SETTING}`, afterwards 9 again")), "{enable}");
        for never in ["11\n", "-1\n", "4294967295\n"] {
            assert_eq!(with(never), None, "{never}");
        }
    }
}
