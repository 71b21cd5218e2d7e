//! How much memory this process may use.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::OnceLock;

/// Where control groups are mounted, and the file with a group's limit: of the second version and of the first.
const GROUPS: [(&str, &str, &str); 2] =
    [("", "/sys/fs/cgroup", "memory.max"), ("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// Bytes of memory that this process may use: those of the machine, or fewer if its control group, or one above that,
/// has a limit. Looked up once.
pub fn memory_limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(find_limit)
}

fn find_limit() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(machine.mem_unit.into());
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups
        .lines()
        .filter_map(|line| group_limit(line, &|path| read_to_string(path).ok()))
        .fold(machine, u64::min)
}

/// The least limit of the group that `line` of `/proc/self/cgroup` names and of those above it.
fn group_limit(line: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, name) = (parts.next()?, parts.next()?);
    let &(_, mount, file) =
        GROUPS.iter().find(|(wanted, ..)| controllers.split(',').any(|controller| controller == *wanted))?;
    // The name is relative to the root group, of which the mount may show a part only: missing files are skipped.
    let ancestors = Path::new(name.trim_start_matches('/')).ancestors();
    let limit = |group: &Path| read(&Path::new(mount).join(group).join(file))?.trim().parse().ok();
    ancestors.filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(line: &str, files: &[(&str, &str)]) -> Option<u64> {
        group_limit(line, &|path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_lowest_limit_among_the_ancestors_counts() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/memory.max", "5000\n"),
        ];
        assert_eq!(limit("0::/a/b", &files), Some(1000));
        assert_eq!(limit("0::/c", &files), Some(5000));
    }

    #[test]
    fn groups_of_the_first_version_count_for_memory_only() {
        let files = [("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n")];
        assert_eq!(limit("7:memory:/a", &files), Some(1000));
        assert_eq!(limit("7:cpu,memory:/a", &files), Some(1000));
        assert_eq!(limit("7:cpu:/a", &files), None);
        assert_eq!(limit("nonsense", &files), None);
    }

    #[test]
    fn a_process_has_some_memory() {
        assert!(memory_limit() > 1 << 20);
    }
}
