//! The key of what clients carry for us, kept beside the last known lists: so sessions outlive a restart.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::config::Config;

const NAME: &str = "session.key";

/// The keys to seal with: those of the configuration, or else the one that is kept in its folder, made now if there is none;
/// nothing where there is no folder, or it cannot be used.
pub(super) fn keys(config: &Config) -> Vec<[u8; 32]> {
    let folder = match &config.catalog_cache {
        Some(folder) if config.session_keys.is_empty() => folder,
        Some(_) | None => return config.session_keys.clone(),
    };
    match kept(folder) {
        Ok(key) => vec![key],
        Err(error) => {
            tracing::warn!(folder = %folder.display(), "no key for sessions can be kept there: {error}; they end with this process");
            vec![]
        }
    }
}

fn kept(folder: &Path) -> io::Result<[u8; 32]> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(NAME);
    match fs::File::open(&path) {
        Ok(file) => {
            let mut bytes = vec![];
            file.take(33).read_to_end(&mut bytes)?;
            if let Ok(key) = bytes.try_into() {
                return Ok(key);
            }
            let aside = path.with_extension("damaged");
            tracing::warn!("{} is no key; it is set aside, and sessions begin anew", path.display());
            fs::rename(&path, aside)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut key = [0; 32];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let draft = folder.join(format!(".{NAME}.new"));
    drop(fs::remove_file(&draft)); // of a start that was cut
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(&key)?;
    file.sync_all()?;
    fs::rename(&draft, &path)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn is_made_once_and_nobody_elses_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b");
        let config = Config { catalog_cache: Some(inside.clone()), ..Config::default() };
        let first = keys(&config);
        assert_eq!((first.len(), keys(&config)), (1, first.clone()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&inside), mode(&inside.join(NAME))), (0o700, 0o600));
        fs::write(inside.join(NAME), "damaged").unwrap();
        let second = keys(&config);
        assert!(second.len() == 1 && second != first && inside.join("session.damaged").exists());
        let own = Config { session_keys: vec![[7; 32]], ..config };
        assert_eq!(keys(&own), [[7; 32]]);
        let nowhere = Config { catalog_cache: Some("/dev/null/x".into()), ..Config::default() };
        assert_eq!((keys(&nowhere), keys(&Config::default())), (vec![], vec![]));
    }
}
