# A QEMU guest with the gateway in it, for scripts/nics. Sourced, never run.
#
# The kernel is Debian's, unpacked from its package and never installed; the initramfs has busybox, its modules, the
# gateway, and the libraries and DPDK drivers that it takes, as they are on this machine.

readonly MODULES="virtio_pci virtio_console virtio_net e1000e vmxnet3 uio_pci_generic vfio-pci vfio_iommu_type1"
# What the gateway loads for the NICs, beside what it is linked with.
readonly DRIVERS="bus_pci bus_vdev mempool_ring net_virtio net_e1000 net_vmxnet3 net_bond"

# The unpacked kernel and busybox, in CACHE; fetched once.
guest_packages() {
    [[ -e $CACHE/root/bin/busybox ]] && return
    local kernel
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [[ $kernel ]] || die "no package linux-image-amd64: run apt-get update (Debian only)"
    say "fetching $kernel and busybox-static"
    mkdir -p "$CACHE/packages"
    (cd "$CACHE/packages" && apt-get download -q "$kernel" busybox-static >/dev/null) || die "apt-get download failed"
    local package
    for package in "$CACHE"/packages/*.deb; do dpkg -x "$package" "$CACHE/root.new" || die "cannot unpack $package"; done
    depmod -b "$CACHE/root.new" "$(ls "$CACHE/root.new/lib/modules")"
    rm -rf "$CACHE/root"
    mv "$CACHE/root.new" "$CACHE/root"
}

# with_libraries FILE...: copies them into the initramfs, to where they are here, and all that they are linked with.
with_libraries() {
    local file
    for file in "$@" $(ldd "$@" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\t\(\/[^ ]*\) (.*/\1/p' | sort -u); do
        mkdir -p "$INITRD/$(dirname "$file")"
        [[ -e $INITRD/$file ]] || cp -L "$file" "$INITRD/$file"
    done
}

guest_initrd() {
    INITRD=$LAB/initrd
    mkdir -p "$INITRD"/{bin,proc,sys,dev,tmp,run,modules,usr/lib}
    # Where this system keeps its libraries is a link, as on every Debian of today.
    ln -s usr/lib "$INITRD/lib"
    mkdir "$INITRD/usr/lib64" && ln -s usr/lib64 "$INITRD/lib64"
    cp "$CACHE/root/bin/busybox" "$INITRD/bin/"
    local applet module
    for applet in $("$CACHE/root/bin/busybox" --list); do [[ $applet == busybox ]] || ln -s busybox "$INITRD/bin/$applet"; done
    cp "$TIDEGATE_BIN" "$INITRD/bin/tidegate"
    with_libraries "$TIDEGATE_BIN"
    rm -f "$INITRD/$TIDEGATE_BIN"
    local folder driver file
    folder=$(dirname "$(ls -d /usr/lib/*/dpdk/pmds-*/librte_net_virtio.so)")
    mkdir -p "$INITRD/$folder"
    for driver in $DRIVERS; do
        # One file under two names, as it is here: loaded twice a driver would register twice.
        file=$(basename "$(readlink "$folder/librte_$driver.so")")
        with_libraries "$folder/../../$file"
        ln -s "../../$file" "$INITRD/$folder/librte_$driver.so"
    done
    # The gateway gives up root for nobody only where it may.
    mkdir -p "$INITRD/etc"
    printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$INITRD/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$INITRD/etc/group"
    KERNEL=$(ls "$CACHE/root/lib/modules")
    for module in $MODULES; do
        modprobe -d "$CACHE/root" -S "$KERNEL" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done | awk '!seen[$0]++' | while read -r module; do
        cp "$module" "$INITRD/modules/" && basename "$module"
    done >"$INITRD/modules/order"
    cat >"$INITRD/init" <<'INIT'
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp; mount -t tmpfs run /run
mkdir -p /dev/hugepages; mount -t hugetlbfs huge /dev/hugepages
while read -r module; do insmod "/modules/$module"; done </modules/order
port=
until [ -e "$port" ]; do
    usleep 10000
    for port in /dev/vport*p1; do :; done
done
# One command a line, in base64; its answer is one line: what it printed, in base64, and its exit status.
exec 3<>"$port"
echo "guest is up" >/dev/console
while read -r line <&3; do
    printf '%s' "$line" | base64 -d >/tmp/command
    sh /tmp/command >/tmp/answer 2>&1 </dev/null
    status=$?
    printf '%s %s\n' "$(base64 /tmp/answer | tr -d '\n')" $status >&3
done
INIT
    chmod 755 "$INITRD/init"
    (cd "$INITRD" && find . | cpio -o -H newc --quiet | gzip -1) >"$LAB/initrd.gz"
}

# guest_start KIND-ARGUMENTS...: boots it, in the namespace of the TAPs; the arguments are further devices.
guest_start() {
    local accelerator=tcg,thread=multi
    # Nested virtualisation without vmx or svm (kvm_pvm) does not start a kernel that knows nothing of it.
    if [[ -w /dev/kvm ]] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accelerator=kvm; fi
    rm -f "$LAB"/ctl.{in,out} "$LAB/monitor."{in,out}
    mkfifo "$LAB"/ctl.{in,out} "$LAB/monitor."{in,out}
    say "booting ($accelerator)"
    ip netns exec "$SWITCH" qemu-system-x86_64 -accel $accelerator -cpu max -M q35 -smp 3 -m 1024 -nodefaults \
        -no-user-config -display none -no-reboot -kernel "$CACHE/root/boot/vmlinuz-$KERNEL" -initrd "$LAB/initrd.gz" \
        -append "console=ttyS0 quiet panic=-1 rdinit=/init hugepages=160 net.ifnames=0 mitigations=off no_timer_check \
tsc=reliable $GUEST_APPEND" \
        -chardev "file,id=console,path=$LAB/console" -serial chardev:console \
        -device virtio-serial-pci,bus=pcie.0,addr=0x8 -chardev "pipe,id=ctl,path=$LAB/ctl" \
        -device virtserialport,chardev=ctl,name=tidegate \
        -chardev "pipe,id=monitor,path=$LAB/monitor" -mon chardev=monitor,mode=readline \
        "$@" >"$LAB/qemu" 2>&1 &
    GUEST=$!
    # A FIFO opens when both ends are there.
    exec {CTL_IN}>"$LAB/ctl.in" {CTL_OUT}<"$LAB/ctl.out" {MONITOR}>"$LAB/monitor.in" {MONITOR_OUT}<"$LAB/monitor.out"
    until_true 300 "the guest to boot" guest_is_up
    grep -q 'guest is up' "$LAB/console" && return
    cat "$LAB/qemu" "$LAB/console"
    return 1
}

# Whether it is up, or never will be.
guest_is_up() { grep -q 'guest is up' "$LAB/console" || ! kill -0 "$GUEST"; }

guest_stop() {
    [[ ${GUEST:-} ]] || return 0
    kill "$GUEST" 2>/dev/null
    wait "$GUEST" 2>/dev/null
    exec {CTL_IN}>&- {CTL_OUT}<&- {MONITOR}>&- {MONITOR_OUT}<&-
    GUEST=
}

# guest COMMAND: runs it in the guest; its output, and its exit status.
guest() {
    local answer status
    base64 -w 0 <<<"$1" >&"$CTL_IN"
    printf '\n' >&"$CTL_IN"
    read -r -t 300 answer status <&"$CTL_OUT" || die "the guest does not answer: $(tail -n 5 "$LAB/console")"
    # A command that prints nothing leaves one word only.
    if [[ ! $status ]]; then status=$answer answer=; fi
    base64 -d <<<"$answer"
    return "$status"
}

# monitor COMMAND: one of QEMU's own.
monitor() { printf '%s\n' "$1" >&"$MONITOR"; }
