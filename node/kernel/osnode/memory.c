// SPDX-License-Identifier: GPL-2.0
/* Memory: pieces from the running host or beside it, also while their node runs. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/rwsem.h>
#include <linux/sched.h>

#include "osnode.h"
#include "symbols.h"

static unsigned long image_limit_mb;
module_param(image_limit_mb, ulong, 0644);
MODULE_PARM_DESC(image_limit_mb, "kumiki gives all images together at most so many MiB; 0: what is free");

static unsigned long alloc_range;
/* Before osnode_lock: read while something is being mapped, which takes long and is nobody else's to wait for. */
static DECLARE_RWSEM(mapping);

int memory_init(void)
{
	void **header = (void **)symbol("real_mode_header");

	alloc_range = symbol("alloc_contig_range_noprof") ?: symbol("alloc_contig_range");
	if (!alloc_range || !header || !*header) {
		pr_err("%s is not in this kernel\n",
		       alloc_range ? "real_mode_header" : "alloc_contig_range (CONFIG_CONTIG_ALLOC)");
		return -ENOENT;
	}
	slices_init(virt_to_phys(*header));
	return 0;
}

/*
 * The kernel clears what it gives, or what it gets back, and does not schedule meanwhile: so much at
 * a time, which is its largest free block, so that none is split.
 */
#define PART (4ul << (20 - PAGE_SHIFT))
#define UNIT (OSNODE_PIECE_UNIT >> PAGE_SHIFT)

/* Memory of one zone of this NUMA node that may be had for good: none that is to stay movable. */
static bool is_of(struct zone *zone, unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);

	return page && page_zone(page) == zone && !PageReserved(page) && !PageHuge(page);
}

/* A number in that place says since Linux 6.16 something else: the former one, to take CMA's. */
#ifdef ACR_FLAGS_NONE
#define ORDINARY ((unsigned long)ACR_FLAGS_NONE)
#else
#define ORDINARY MIGRATE_MOVABLE
#endif

/* One part, all or nothing; the kernel moves what lies there. */
static bool take(struct zone *zone, unsigned long from, unsigned long pages)
{
	unsigned long pfn;

	for (pfn = from; pfn < from + pages; pfn++)
		if (!is_of(zone, pfn))
			return false;
	return !(int)call_sealed(alloc_range, from, from + pages, ORDINARY,
				 GFP_KERNEL | __GFP_NOWARN);
}

static void give_back(unsigned long from, unsigned long end)
{
	unsigned long part;

	for (; from < end; from += part) {
		part = min(PART, end - from);
		free_contig_range(from, part);
		cond_resched();
	}
}

/* The last end of such a run that is not above this one; it may begin below 0. */
static unsigned long run_end(unsigned long end, unsigned long pages, unsigned long aligned)
{
	return end < pages ? 0 : rounddown(end - pages, aligned) + pages;
}

/*
 * One run of pages, its end first. A part that can't be had ends the run, and the next one
 * begins below it: so each part of the zone is asked for once, or twice if runs are aligned.
 */
static unsigned long take_run(struct zone *zone, unsigned long pages, unsigned long aligned)
{
	unsigned long first = ALIGN(zone->zone_start_pfn, UNIT);
	unsigned long end = run_end(zone_end_pfn(zone), pages, aligned);
	unsigned long at = end, part;

	while (end >= first + pages && !fatal_signal_pending(current)) {
		if (at == end - pages)
			return at;
		part = min(PART, at - (end - pages));
		cond_resched();
		if (take(zone, at - part, part)) {
			at -= part;
			continue;
		}
		give_back(at, end);
		end = at = run_end(at - part, pages, aligned);
	}
	give_back(at, end);
	return 0;
}

static int allocate(struct osnode_memory *memory)
{
	unsigned long pages = memory->bytes >> PAGE_SHIFT, pfn = 0;
	unsigned long aligned = UNIT * (memory->aligned ?: 1);
	int zone;

	for (zone = ZONE_NORMAL; zone >= 0 && !pfn; zone--)
		pfn = take_run(&NODE_DATA(memory->numa_node)->node_zones[zone], pages,
			       aligned);
	memory->address = PFN_PHYS(pfn);
	return pfn ? 0 : fatal_signal_pending(current) ? -EINTR : -ENOMEM;
}

/* Memory beside that of this kernel's allocator, by a module that stays as long as it is a holding's. */
static int claim(struct piece *piece)
{
	int error;

	piece->claim = symbol_request(osnode_claim);
	if (!piece->claim)
		return -ENOPKG;
	error = piece->claim(piece->address, piece->bytes, true);
	if (error)
		symbol_put(osnode_claim);
	return error;
}

/* Under the lock, and not while the kernel moves what lies there. */
int memory_add(struct holding *holding, struct osnode_memory *memory)
{
	static DEFINE_MUTEX(one_at_a_time);
	struct piece piece = { memory->address, memory->bytes };
	int error;

	if (!memory->bytes || (memory->bytes | memory->address) % OSNODE_PIECE_UNIT ||
	    (memory->address && memory->aligned) || (memory->bytes | memory->address) >> PAGE_SHIFT > INT_MAX)
		return -EINVAL;
	if (memory->numa_node >= MAX_NUMNODES || !node_online(memory->numa_node))
		return -ENODEV;
	if (!holding_may_change(holding) || holding->sealed)
		return -EBUSY;
	if (holding->pieces == OSNODE_PIECES)
		return -ENOSPC;
	mutex_unlock(&osnode_lock);
	mutex_lock(&one_at_a_time);
	error = memory->address ? claim(&piece) : allocate(memory);
	mutex_unlock(&one_at_a_time);
	mutex_lock(&osnode_lock);
	if (error)
		return error;
	piece.address = memory->address;
	holding->piece[holding->pieces] = piece;
	smp_store_release(&holding->pieces, holding->pieces + 1);
	return 0;
}

/* Its memory is another one's as well: an image has several names. Under the lock. */
bool memory_is_linked(struct holding *holding)
{
	struct holding *other;

	list_for_each_entry(other, &holdings, list)
		if (other != holding && other->pieces &&
		    other->piece[0].address == holding->piece[0].address)
			return true;
	return false;
}

static void piece_free(const struct piece *piece)
{
	if (piece->claim) {
		piece->claim(piece->address, piece->bytes, false);
		symbol_put(osnode_claim);
	} else {
		give_back(PHYS_PFN(piece->address), PHYS_PFN(piece->address + piece->bytes));
	}
}

/* So many of its pieces, or 0 that it had: it has none any more, and its owner's lock keeps it so. */
void memory_free(struct holding *holding, unsigned int pieces)
{
	struct osnode_window *window = holding->window;

	/* Who may still look there, or write: a cpu in a bell, a reader of its word, functions. */
	vector_end(&holding->bell);
	WRITE_ONCE(holding->window, NULL);
	synchronize_rcu();
	pci_tell(holding, PCI_LET_GO, NULL);
	memunmap(window);
	while (pieces)
		piece_free(&holding->piece[--pieces]);
}

/* What one kernel had there is nothing for the next one. */
static void wipe(const struct piece *piece)
{
	phys_addr_t at;
	void *part;

	for (at = piece->address; at < piece->address + piece->bytes; at += OSNODE_PIECE_UNIT) {
		part = memremap(at, OSNODE_PIECE_UNIT, MEMREMAP_WB);
		if (part)
			memset(part, 0, OSNODE_PIECE_UNIT);
		else
			pr_warn("memory at %pa was not cleared\n", &at);
		memunmap(part);
		cond_resched();
	}
}

/* Its kernel has said that it uses it no more, and cannot take it again from here on. */
static bool has_let_go(struct holding *holding, phys_addr_t address)
{
	struct osnode_blocks *blocks = (void *)holding->window + OSNODE_BLOCKS_AT;
	unsigned int n;

	for (n = 0; n < OSNODE_PIECES; n++)
		if (blocks->block[n].address == address)
			return holding_may_change(holding) &&
			       cmpxchg(&blocks->block[n].state, OSNODE_BLOCK_OFF,
				       OSNODE_BLOCK_NONE) == OSNODE_BLOCK_OFF;
	return false;
}

/* Under the lock, but while it is waited for who maps it, and while it is cleared. */
int memory_back(struct holding *holding, const struct osnode_memory *request)
{
	struct handle *handle;
	struct piece piece;
	unsigned int n = 1; /* the first has its window */

	if (holding->kind != OSNODE_NODE)
		return -EINVAL;
	while (n < holding->pieces && holding->piece[n].address != request->address)
		n++;
	if (n >= holding->pieces)
		return -ENODEV;
	if (holding->state == RUNNING && !has_let_go(holding, request->address))
		return -EBUSY;
	mutex_unlock(&osnode_lock);
	down_write(&mapping);
	mutex_lock(&osnode_lock);
	piece = holding->piece[n];
	memmove(&holding->piece[n], &holding->piece[n + 1],
		(holding->pieces - n - 1) * sizeof(piece));
	smp_store_release(&holding->pieces, holding->pieces - 1);
	/* Nobody maps it again; what is mapped, by whomever, goes. */
	list_for_each_entry(handle, &holding->handles, list)
		unmap_mapping_range(handle->mapping, piece.address, piece.bytes, 1);
	up_write(&mapping);
	mutex_unlock(&osnode_lock);
	wipe(&piece);
	piece_free(&piece);
	mutex_lock(&osnode_lock);
	return 0;
}

static void mapping_opened(struct vm_area_struct *vma)
{
	atomic_inc(&((struct holding *)vma->vm_private_data)->mapped);
}

static void mapping_closed(struct vm_area_struct *vma)
{
	atomic_dec(&((struct holding *)vma->vm_private_data)->mapped);
}

static const struct vm_operations_struct mapping_operations = {
	.open = mapping_opened,
	.close = mapping_closed,
};

static bool within(phys_addr_t start, size_t bytes, phys_addr_t from, size_t length)
{
	return from >= start && from - start <= bytes && length <= bytes - (from - start);
}

/* The piece in which all of it lies, or NULL. */
static struct piece *piece_of(struct holding *holding, phys_addr_t from, size_t length)
{
	struct piece *piece = holding->piece, *end = piece + holding->pieces;

	while (piece < end && !within(piece->address, piece->bytes, from, length))
		piece++;
	return piece < end ? piece : NULL;
}

/* What this descriptor may map of its holding; the offset is the physical address. */
static int may_map(struct handle *handle, phys_addr_t from, size_t length, bool writes)
{
	struct holding *holding = handle->holding;

	if (!holding)
		return -ENOTCONN;
	if (handle->mode != OSNODE_OWN && handle->mode != OSNODE_SERVE &&
	    holding->kind == OSNODE_NODE) {
		if (writes && handle->mode != OSNODE_TALK)
			return -EACCES;
		return holding->pieces && within(window_address(holding), OSNODE_WINDOW_BYTES,
						 from, length) ? 0 : -ENXIO;
	}
	if (handle->mode == OSNODE_READ && !holding->sealed)
		return -EAGAIN;
	if (writes && (handle->mode == OSNODE_READ || holding->sealed))
		return -EACCES;
	if (handle->mode == OSNODE_OWN && holding->slice && within(holding->slice, OSNODE_SLICE_BYTES, from, length))
		return slice_claim(holding);
	return piece_of(holding, from, length) ? 0 : -ENXIO;
}

/*
 * Each page by itself, so that get_user_pages() finds it: a disk is read straight into it, past
 * the host's page cache. Of memory that this kernel has given, whose pages are ordinary ones.
 */
static int map_pages(struct vm_area_struct *vma)
{
	struct page *pages[64];
	unsigned long pfn = vma->vm_pgoff, at = vma->vm_start, n, left;
	int error = 0;

	for (; at < vma->vm_end && !error; at += n << PAGE_SHIFT) {
		left = min(ARRAY_SIZE(pages), (vma->vm_end - at) >> PAGE_SHIFT);
		for (n = 0; n < left; n++)
			pages[n] = pfn_to_page(pfn++);
		error = vm_insert_pages(vma, at, pages, &left);
		cond_resched();
	}
	return error;
}

int memory_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct handle *handle = file->private_data;
	phys_addr_t from = (phys_addr_t)vma->vm_pgoff << PAGE_SHIFT;
	size_t length = vma->vm_end - vma->vm_start;
	bool has_pages;
	int error;

	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	down_read(&mapping);
	mutex_lock(&osnode_lock);
	/* A shared mapping of a descriptor open for reading can't be made writable. */
	error = may_map(handle, from, length, vma->vm_flags & VM_MAYWRITE);
	if (!error) {
		/* Memory that was kept from this kernel, or is off line, has no pages that it knows. */
		has_pages = handle->mode == OSNODE_SERVE && !piece_of(handle->holding, from, length)->claim;
		vma->vm_private_data = handle->holding;
		vma->vm_ops = &mapping_operations;
		mapping_opened(vma);
	}
	mutex_unlock(&osnode_lock);
	if (!error) {
		error = has_pages ? map_pages(vma) :
			remap_pfn_range(vma, vma->vm_start, vma->vm_pgoff, length, vma->vm_page_prot);
		if (error)
			mapping_closed(vma);
	}
	up_read(&mapping);
	return error;
}
