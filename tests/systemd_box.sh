#!/usr/bin/env bash
# Boot a real systemd as PID 1 in throw-away namespaces, for tests on a machine that has another init.
#
#   can                      is this machine able to? If not: status 1, and the reason on stderr
#   up [SRC[:DST][:ro]]...   boot with these host paths bound in; returns once the target is reached
#   exec CMD...              run CMD inside: root, cwd /, a clean environment, its own exit status
#   pid                      the host's pid of the box's PID 1
#   down                     power off, wait until nothing is left
#
#   BOX=name       several boxes side by side (box)         BOX_TTL=seconds   killed after that anyway (1800)
#   BOX_WATCH=pid  killed once that process is gone         BOX_NET=host      the machine's network (only lo)
#
# The box sees the machine's files through an overlay: what it writes is gone with it, except below the paths
# bound in. Its /tmp, /run, /dev and /etc/systemd/system are fresh. Needs root with CAP_SYS_ADMIN, a
# mounted cgroup2, overlayfs, util-linux and systemd; no network, no dbus or init of the machine's.
set -eu
export LIBMOUNT_UTAB=/dev/null # else mount(8) leaves a /run/mount on the machine
export BOX=${BOX:-box}
self=$(readlink -f "$0")
state=/run/systemd-box/$BOX
cgroups=$(findmnt -rno TARGET -t cgroup2 | head -n1)
cgroup=$cgroups/systemd-box-$BOX

die() {
  echo "systemd_box: $*" >&2
  exit 1
}

# Whether the box's PID 1 runs: the same start time, not only the same pid. Sets pid and name.
alive() {
  local started='' stat=()
  pid='' name=''
  { read -r pid started <"$state/init" && read -ra stat <"/proc/$pid/stat"; } 2>/dev/null || return 1
  name=${stat[1]}
  [ "${stat[2]}" != Z ] && [ "${stat[21]}" = "$started" ]
}

# A bash of ours forks inside, not nsenter: its fork would copy the SIGSTOP that systemd-shutdown sends to all onto
# itself, and then nobody reaps the child.
enter() {
  exec nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup --root --wdns=/ --no-fork -- \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    TERM=dumb SYSTEMD_PAGER= SYSTEMD_COLORS=0 \
    bash -c 'setpriv --pdeathsig KILL -- "$@"; exit $?' exec "$@"
}

# Nothing of the box may outlive it: processes, cgroups, files.
sweep() {
  local i
  for ((i = 0; i < 50; i++)); do
    [ -d "$cgroup" ] || break
    { echo 1 >"$cgroup/cgroup.kill" && find "$cgroup" -depth -type d -exec rmdir {} +; } 2>/dev/null || sleep 0.1
  done
  rm -rf --one-file-system "$state"
  rmdir /run/systemd-box 2>/dev/null || :
}

can() {
  [ "$(id -u)" = 0 ] || die "only root can boot a systemd box"
  grep -qE ' 4294967295$' /proc/self/uid_map || die "root of a user namespace cannot boot a systemd box"
  [ -x /lib/systemd/systemd ] || die "there is no systemd on this machine"
  [ -w "$cgroups" ] || die "no writable cgroup2 is mounted"
  grep -q overlay /proc/filesystems || modprobe overlay 2>/dev/null || die "the kernel has no overlay filesystem"
  unshare --mount --pid --fork --cgroup --net true 2>/dev/null || die "no namespaces can be made (a container?)"
}

up() {
  local i answer
  can
  ! alive || die "box '$BOX' already runs (pid $pid)"
  [ ! -d "$state" ] || sweep
  mkdir -p "$state/mnt"
  : >"$state/boot.log"
  exec 9<"$state/boot.log" # still to be read when a failed boot has been swept away
  setsid unshare --mount --propagation private "$self" _supervise "$@" </dev/null >"$state/boot.log" 2>&1 &
  for ((i = 0; i < 1200; i++)); do
    sleep 0.05
    [ -d "$state" ] || { cat <&9 >&2; die "box '$BOX' died while booting"; }
    alive || continue
    answer=$(enter systemctl is-system-running 2>/dev/null) || :
    case $answer in running | degraded) echo "$answer"; return ;; esac
  done
  cat <&9 >&2
  down
  die "box '$BOX' did not boot"
}

down() {
  local i
  if alive; then kill -s RTMIN+4 "$pid" || :; fi # SIGRTMIN+4: power off
  for ((i = 0; i < 1900; i++)); do
    alive || break
    # systemd-shutdown comes when every unit is stopped, and would then wait 10 s for strangers such as an `exec`.
    case $i$name in 1800* | *systemd-shutdow*) kill -KILL "$pid" || : ;; esac
    sleep 0.05
  done
  ! alive || die "box '$BOX' still runs (pid $pid)"
  for ((i = 0; i < 20; i++)); do
    [ -d "$state" ] || return 0
    sleep 0.1
  done
  sweep
}

# Outside the box's cgroup, in a mount namespace of its own: starts the box, waits for its end, sweeps.
_supervise() {
  local fd job
  for fd in /proc/self/fd/*; do # else a runner that waits for the end of a pipe waits for us
    fd=${fd##*/}
    case $fd in 0 | 1 | 2 | 255) ;; *) eval "exec $fd>&-" ;; esac
  done
  trap : INT TERM HUP
  mkdir -p "$cgroup"
  local net=(--net)
  [ "${BOX_NET:-}" != host ] || net=()
  timeout -s KILL "${BOX_TTL:-1800}" \
    unshare --pid --fork --kill-child --mount --uts --ipc "${net[@]}" "$self" _join "$@" &
  job=$!
  if [ -n "${BOX_WATCH:-}" ]; then
    while kill -0 "$BOX_WATCH" && kill -0 $job; do sleep 0.2; done 2>/dev/null
    if alive; then kill -KILL "$pid" || :; fi # here because the watched process is gone, or the box is
  fi
  while kill -0 $job 2>/dev/null; do wait $job || :; done
  cd /
  sweep
}

# In the new pid namespace: join the cgroup, and only THEN make it the root of a cgroup namespace. The waiting `unshare`
# stays outside, since a process in the box's root would forbid controllers below it.
_join() {
  echo 0 >"$cgroup/cgroup.procs"
  exec unshare --cgroup "$self" _boot "$@"
}

_boot() {
  local me started root=$state/mnt/root
  read -r me _ </proc/self/stat # /proc is still the machine's: the pid as the machine sees it
  started=$(cut -d' ' -f22 "/proc/$me/stat")
  mount --make-rprivate /
  mount -t tmpfs -o mode=755 box "$state/mnt"
  mkdir "$state/mnt/upper" "$state/mnt/work" "$root"
  mount -t overlay -o "lowerdir=/,upperdir=$state/mnt/upper,workdir=$state/mnt/work" box "$root"
  _kernel_files "$root"
  _devices "$root"
  _fresh_places "$root"
  _identity "$root"
  _binds "$root" "$@"
  cd "$root"
  mkdir run/.old
  pivot_root . run/.old
  echo "$me $started" >"/run/.old$state/init"
  umount -l /run/.old
  mount --make-rshared / # expected of whoever starts a systemd; credentials need it
  # Without what reaches the machine. `container=` keeps PID 1 off the clock, core_pattern and modules.
  exec setpriv --bounding-set -sys_time,-sys_module,-sys_rawio,-sys_boot,-syslog,-mac_admin,-mac_override,-wake_alarm,-block_suspend \
    env -i container=systemd-box PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
    /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal --show-status=no \
    </dev/null >/dev/null 2>&1
}

_kernel_files() {
  local place
  mount -t proc -o nosuid,nodev,noexec proc "$1/proc"
  for place in sys sysrq-trigger irq bus; do
    [ -e "$1/proc/$place" ] || continue
    mount --bind "$1/proc/$place" "$1/proc/$place"
    mount -o remount,bind,ro "$1/proc/$place"
  done
  mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$1/sys"
  mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$1/sys/fs/cgroup"
}

_devices() {
  local node
  mount -t tmpfs -o mode=755,nosuid dev "$1/dev"
  mkdir "$1/dev/pts" "$1/dev/shm"
  for node in null zero full random urandom tty; do
    : >"$1/dev/$node"
    mount --bind "/dev/$node" "$1/dev/$node"
  done
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$1/dev/pts"
  mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
  ln -s pts/ptmx "$1/dev/ptmx"
  ln -s /proc/self/fd "$1/dev/fd"
  for node in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${node%:*}" "$1/dev/${node#*:}"; done
}

# /tmp and /run, and no unit the machine has enabled; masked is what cannot work in a box.
_fresh_places() {
  local unit generator units=$1/etc/systemd/system
  mount -t tmpfs -o mode=755,nosuid,nodev run "$1/run"
  mount -t tmpfs -o mode=1777,nosuid,nodev tmp "$1/tmp"
  mkdir -p "$units" "$1/etc/systemd/system-generators"
  mount -t tmpfs -o mode=755 units "$units"
  for unit in systemd-{udevd,udev-trigger,timesyncd,networkd,resolved,binfmt,modules-load}.service \
    systemd-{sysctl,pstore,remount-fs,firstboot,vconsole-setup}.service \
    systemd-udevd-{control,kernel}.socket systemd-journald-audit.socket getty.target console-getty.service \
    dev-{hugepages,mqueue}.mount sys-kernel-{debug,tracing,config}.mount sys-fs-fuse-connections.mount \
    proc-sys-fs-binfmt_misc.automount; do
    ln -s /dev/null "$units/$unit"
  done
  for generator in sysv rc-local getty; do
    ln -sf /dev/null "$1/etc/systemd/system-generators/systemd-$generator-generator"
  done
}

_identity() {
  local file
  for file in fstab machine-id hostname; do rm -f "$1/etc/$file"; done
  : >"$1/etc/fstab"
  echo "$BOX" >"$1/etc/hostname"
  tr -d - </proc/sys/kernel/random/uuid >"$1/etc/machine-id"
  mkdir -p "$1/etc/systemd/journald.conf.d"
  printf '[Journal]\nStorage=volatile\nAudit=no\nRateLimitIntervalSec=0\n' \
    >"$1/etc/systemd/journald.conf.d/box.conf"
}

_binds() {
  local root=$1 bind source target sealed
  shift
  for bind; do
    sealed=''
    case $bind in *:ro) sealed=1 bind=${bind%:ro} ;; esac
    source=${bind%%:*}
    target=$root${bind#*:}
    if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "${target%/*}"; [ -e "$target" ] || : >"$target"; fi
    mount --bind "$source" "$target"
    [ -z "$sealed" ] || mount -o remount,bind,ro "$target"
  done
}

verb=${1:-}
[ $# = 0 ] || shift
case $verb in
  can | up | down | _supervise | _join | _boot) "$verb" "$@" ;;
  exec) alive || die "box '$BOX' is not running"; enter "$@" ;;
  pid) alive && echo "$pid" ;;
  *) die "usage: can | up [SRC[:DST][:ro]]... | exec CMD... | pid | down; see the head of this file" ;;
esac
