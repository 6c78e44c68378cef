# A durable place in a machine whose disk loses what was not flushed: callers count, each answer is marked in the disk's
# log, and then the disk is made as it was at some of these marks, and the place served from it.
# CALLS: of each caller; CUTS: how many marks; PRELOAD: a library for the place, if any.
set -e
callers="1 2 3 4"
allow=/root/allow
cat > $allow <<END
list = true
[kind.counter]
create = true
parts = ["add", "get"]
END

# Serves the place from a folder; returns when it answers.
serve() {
	LD_PRELOAD=$PRELOAD kumiki place serve --host h --cpu-list 0 --durable $1 --allow $allow > /tmp/served 2>&1 &
	server=$!
	tries=0
	until kumiki resource ls 'h.core0/*/*' > /dev/null 2>&1; do
		tries=$((tries + 1))
		if [ $tries -gt 240 ] || ! kill -0 $server 2> /dev/null; then
			cat /tmp/served >&2
			return 1
		fi
		sleep 0.5
	done
}

end() {
	kill -9 $server
	wait $server 2> /dev/null || true
}

gunzip -c image.gz > /dev/ram0
./cuts make logged /dev/ram0 /dev/ram1
mkdir -p /mnt/disk /mnt/cut
mount -t ext4 /dev/mapper/logged /mnt/disk
serve /mnt/disk/places
for caller in $callers; do
	kumiki resource create h.core0/counter/c$caller 0 > /dev/null
	./cuts mark logged $caller-0
done

# One caller: counts, and marks each answer when it has come.
count() {
	for call in $(seq $CALLS); do
		# While nobody serves it has not run.
		until sum=$(kumiki resource call --timeout 120s h.core0/counter/c$1 add 1 2> /dev/null); do
			sleep 0.2
		done
		./cuts mark logged $1-$sum
	done
}
pids=
for caller in $callers; do
	count $caller &
	pids="$pids $!"
done
# Killed, too, and served again, while they count.
sleep 4
end
serve /mnt/disk/places
for pid in $pids; do wait $pid; done
end
umount /mnt/disk

# The marks in their order: the last one is that of all.
./cuts mark logged over
gunzip -c image.gz > /dev/ram2
./cuts replay /dev/ram1 over /dev/ram2 > /tmp/marks
all=$(($(wc -l < /tmp/marks) - 1))
[ $all -eq $((4 * (CALLS + 1))) ] || { echo "$all marks"; exit 1; }
for cut in $(seq $CUTS); do
	mark=$(sed -n "$((all * cut / CUTS))p" /tmp/marks)
	gunzip -c image.gz > /dev/ram2
	./cuts replay /dev/ram1 $mark /dev/ram2 > /tmp/passed
	mount -t ext4 /dev/ram2 /mnt/cut
	if serve /mnt/cut/places; then
		for caller in $callers; do
			answered=$(sed -n "s/^$caller-//p" /tmp/passed | sort -n | tail -n 1)
			is=$(kumiki resource call h.core0/counter/c$caller get 2> /dev/null || echo none)
			echo "cut $mark: counter $caller is $is, answered ${answered:-none}"
		done
		end
	else
		echo "cut $mark: not served"
		kill -9 $server 2> /dev/null || true
	fi
	umount /mnt/cut
done
echo "whole"
