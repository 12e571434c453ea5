//! Whether a file is mounted by itself.

use std::path::Path;

/// What to tell of `file` where it is a mount point: Kubernetes never changes a file that is mounted by `subPath`.
pub(super) fn warning(file: &Path) -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (whole, real) = (std::path::absolute(file).ok()?, file.canonicalize().ok()?);
    let is_it = |point: &String| [&whole, &real].iter().any(|path| path.as_os_str() == point.as_str());
    points(&table).any(|point| is_it(&point)).then(|| {
        format!(
            "{} is a mount point itself (in Kubernetes: `subPath`), and changes of it do not arrive; mount its directory",
            file.display()
        )
    })
}

/// Where something is mounted (proc(5)). Blanks and the like are written as octal numbers there.
fn points(table: &str) -> impl Iterator<Item = String> {
    let written = table.lines().filter_map(|line| line.split(' ').nth(4));
    written.map(|point| {
        let octal = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
        octal.iter().fold(point.to_owned(), |point, (code, plain)| point.replace(code, plain))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_told_and_a_plain_file_is_not() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n36 35 98:0 /a /etc/with\\040blank/c.yaml ro,noatime - ext4 /dev/root rw\n";
        assert_eq!(points(table).collect::<Vec<_>>(), ["/", "/etc/with blank/c.yaml"]);
        let told = warning(Path::new("/proc")).expect("it is one everywhere");
        assert!(told.contains("/proc") && told.contains("subPath"), "{told}");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(warning(file.path()), None);
        assert_eq!(warning(Path::new("/no/such/file")), None);
    }
}
