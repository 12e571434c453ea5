use super::*;

#[test]
fn fault_105_what_is_held_goes_by_the_control_group() {
    let write = |root: &Path, file: &str, text: &str| {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert_eq!(granted(root), None);
    write(root, "proc/self/cgroup", "0::/pod/app\n");
    assert_eq!(granted(root), None);
    write(root, "sys/fs/cgroup/memory.max", "134217728\n");
    write(root, "sys/fs/cgroup/pod/app/memory.max", "max\n");
    assert_eq!(granted(root), Some(128 << 20), "seen at the root, as in a container");
    write(root, "sys/fs/cgroup/pod/memory.max", "67108864\n");
    assert_eq!(granted(root), Some(64 << 20), "the tightest holds");
    write(root, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/y\n");
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_eq!(granted(root), None);
    write(root, "sys/fs/cgroup/memory/y/memory.limit_in_bytes", "33554432\n");
    assert_eq!(granted(root), Some(32 << 20));
}

#[test]
fn fault_105_what_does_not_fit_is_refused_and_given_back() {
    const KIB: usize = 1 << 10;
    let memory = Memory::new(Some(100 * KIB));
    let (mut first, mut second) = (None, None);
    assert!(memory.account(&mut first, SMALL) && memory.held() == 0, "small ones do not count");
    assert!(memory.account(&mut first, 60 * KIB));
    assert!(!memory.account(&mut second, 41 * KIB));
    assert!(memory.account(&mut second, 20 * KIB) && memory.held() == 80 * KIB, "it shrinks");
    assert!(memory.account(&mut second, 40 * KIB) && memory.is_full());
    drop(first);
    assert!(memory.account(&mut second, 1) && memory.held() == 0);
    let over = memory.hold(1000 * KIB);
    assert!(memory.is_full() && !memory.account(&mut second, 20 * KIB));
    drop((over, second));
    assert_eq!(memory.held(), 0);
}
