# In a machine of the lab, whose file `system` is the Debian that the packages were installed in: a node
# runs there while the packages are upgraded and purged. $1 is the version.
set -eux
mkdir -p /mnt
mount -t 9p -o trans=virtio,version=9p2000.L,cache=mmap,msize=262144 system /mnt
for folder in proc sys dev; do mount --rbind "/$folder" "/mnt/$folder"; done
for folder in run tmp; do mount -t tmpfs tmpfs "/mnt/$folder"; done
# The kernel that runs, for a node to start; the module is to be that of DKMS.
mount --bind /boot /mnt/boot
rmmod osnode_eventfd osnode_pci osnode
exec chroot /mnt /usr/bin/env -i DEBIAN_FRONTEND=noninteractive HOME=/root \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin V="$1" sh -euxc '
modinfo --field filename osnode | grep /updates/dkms/
modprobe osnode
kumiki image add debian --kernel /boot/vmlinuz
kumiki node create n1 --cpus 2 --memory 256M --image debian
# An emulated machine, beside other work, takes longer than any other.
kumiki node start n1 --timeout 5m
booted=$(kumiki node exec n1 -- cat /proc/sys/kernel/random/boot_id)
# Not built anew here, which takes minutes: that is seen where they are upgraded outside of a machine.
touch /etc/dkms/no-autoinstall
dpkg --install /newer/*.deb
kumiki --version
[ "$(kumiki node exec n1 -- cat /proc/sys/kernel/random/boot_id)" = "$booted" ]
cp /usr/bin/kumiki /tmp/kept
dpkg --purge kumiki kumiki-dkms
[ ! -e /usr/bin/kumiki ]
if modinfo osnode; then exit 1; fi
/tmp/kept node ls
[ "$(/tmp/kept node exec n1 -- cat /proc/sys/kernel/random/boot_id)" = "$booted" ]
/tmp/kept node stop n1
/tmp/kept node rm n1
rmmod osnode
rm /etc/dkms/no-autoinstall
echo a node went on
'
