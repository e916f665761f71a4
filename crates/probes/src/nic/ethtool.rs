//! Link settings from a driver: `ETHTOOL_GLINKSETTINGS`, which has 32 bits for the speed in Mbit/s.
//!
//! Some drivers answer the older request, `ETHTOOL_GSET`, with 16 bits: 65,535 if the speed is unknown.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use record::missing::{Maybe, Missing};
use record::nic::Duplex;

/// Parts of the kernel's interface: `linux/ethtool.h`.
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
const SPEED_UNKNOWN: u32 = u32::MAX;
const DUPLEX_HALF: u8 = 0;
const DUPLEX_FULL: u8 = 1;
/// The masks that follow the settings: three of at most 127 words.
const MASK_WORDS: usize = 3 * 127;

/// Speed and duplex of a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) speed_bits_per_s: Maybe<u64>,
    pub(super) duplex: Maybe<Duplex>,
}

/// `struct ethtool_link_settings`, and room for the masks of link modes, which we do not read.
#[repr(C)]
struct LinkSettings {
    cmd: u32,
    speed: u32,
    duplex: u8,
    port: u8,
    phy_address: u8,
    autoneg: u8,
    mdio_support: u8,
    eth_tp_mdix: u8,
    eth_tp_mdix_ctrl: u8,
    link_mode_masks_nwords: i8,
    rest: [u32; 8],
    masks: [u32; MASK_WORDS],
}

const _: () = assert!(size_of::<LinkSettings>() == 48 + 4 * MASK_WORDS);

/// A socket for requests to drivers.
#[derive(Debug)]
pub(super) struct Ethtool(OwnedFd);

impl Ethtool {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self(socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?))
    }

    /// Speed and duplex of an interface, from its driver.
    pub(super) fn settings(&self, name: &str) -> Settings {
        match self.ask(name) {
            Ok(told) => settings(told.speed, told.duplex),
            Err(e) => {
                let why = match e.raw_os_error() {
                    Some(libc::EOPNOTSUPP) => Missing::because("its driver does not report it"),
                    _ => Missing::because(format!("its driver does not report it: {e}")),
                };
                Settings { speed_bits_per_s: Err(why.clone()), duplex: Err(why) }
            }
        }
    }

    fn ask(&self, name: &str) -> io::Result<LinkSettings> {
        // SAFETY: plain integers, for which zeros are values.
        let mut told: LinkSettings = unsafe { zeroed() };
        // The first answer only holds the number of words of the masks, as a negative number.
        self.request(name, &mut told)?;
        told.link_mode_masks_nwords = told.link_mode_masks_nwords.saturating_neg();
        self.request(name, &mut told)?;
        Ok(told)
    }

    fn request(&self, name: &str, told: &mut LinkSettings) -> io::Result<()> {
        told.cmd = ETHTOOL_GLINKSETTINGS;
        // SAFETY: as above.
        let mut request: libc::ifreq = unsafe { zeroed() };
        // A name that the kernel listed always fits, with its terminator.
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = (&raw mut *told).cast();
        // SAFETY: the kernel reads the request, and writes at most three masks of as many words as `told`
        // says, which is at most 127, behind its 48 bytes: there is room.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn settings(speed_mbit_per_s: u32, duplex: u8) -> Settings {
    Settings {
        speed_bits_per_s: match speed_mbit_per_s {
            SPEED_UNKNOWN | 0 => Err(Missing::because("its driver reports an unknown speed")),
            mbit => Ok(u64::from(mbit) * 1_000_000),
        },
        duplex: match duplex {
            DUPLEX_HALF => Ok(Duplex::Half),
            DUPLEX_FULL => Ok(Duplex::Full),
            _ => Err(Missing::because("its driver reports an unknown duplex mode")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_unknown_and_800_gbit_is_800_gbit() {
        assert_eq!(settings(800_000, 1).speed_bits_per_s, Ok(800_000_000_000));
        assert_eq!(settings(65_535, 1).speed_bits_per_s, Ok(65_535_000_000));
        assert!(settings(u32::MAX, 255).speed_bits_per_s.is_err());
        assert!(settings(u32::MAX, 255).duplex.is_err());
    }

    #[test]
    fn the_loopback_has_no_speed_and_says_so() {
        let told = Ethtool::open().unwrap().settings("lo");
        assert!(told.speed_bits_per_s.unwrap_err().reason.contains("driver"));
        let nobody = Ethtool::open().unwrap().settings("no-such-link");
        assert!(nobody.speed_bits_per_s.is_err());
    }
}
