//! Where a study's jobs run.

use crate::error::{Error, Fault};
use std::str::FromStr;

/// Where jobs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this process, and in others that share the study's folder.
    Local,
    /// On the workers of a Dask scheduler at this `HOST:PORT`.
    Dask(String),
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place, Error> {
        let is_address = |address: &&str| {
            address
                .rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        match text.strip_prefix("dask://") {
            Some(address) if is_address(&address) => Ok(Place::Dask(address.to_owned())),
            None if text == "local" => Ok(Place::Local),
            _ => Err(Error::new(
                Fault::Usage,
                format!("`{text}` is no place for jobs: choose `local` or `dask://HOST:PORT`"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_local_or_a_scheduler_and_others_are_refused_with_the_choices() {
        assert_eq!("local".parse::<Place>().unwrap(), Place::Local);
        assert_eq!("dask://a:8786".parse::<Place>().unwrap(), Place::Dask("a:8786".to_owned()));
        for wrong in ["", "ray://a:1", "dask://", "dask://a", "dask://:8786", "dask://a:70000"] {
            let why = wrong.parse::<Place>().unwrap_err().to_string();
            assert!(why.contains("`local` or `dask://HOST:PORT`"), "{why}");
        }
    }
}
