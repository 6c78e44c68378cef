// SPDX-License-Identifier: GPL-2.0
/*
 * In the host: DMA of a function that a node has is confined by the IOMMU to that node's memory, at
 * the addresses that it has for the processor, since a node knows no others. Apart from osnode-pci.ko,
 * which has no need of it where functions are given unconfined.
 */

#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/version.h>

#include "osnode.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define iommu_paging_domain_alloc(device) iommu_domain_alloc((device)->bus)
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define iommu_map(domain, from, to, bytes, how, gfp) iommu_map(domain, from, to, bytes, how)
#endif

/* All that a device reaches which is attached to it. */
static int map_pieces(struct iommu_domain *domain, const struct holding *holding)
{
	const struct piece *piece;
	int error = 0;

	for (piece = holding->piece; !error && piece < holding->piece + holding->pieces; piece++)
		error = iommu_map(domain, piece->address, piece->address, piece->bytes,
				  IOMMU_READ | IOMMU_WRITE | IOMMU_CACHE, GFP_KERNEL);
	return error;
}

/*
 * The device has no bus master while this changes. What was mapped before goes with its domain:
 * a device is attached to one at a time, and to what its host's kernel chose when to none of these.
 */
int osnode_confine(struct device *device, struct iommu_domain **reach, const struct holding *holding)
{
	struct iommu_domain *domain = *reach;
	int error;

	if (domain) {
		iommu_detach_device(domain, device);
		iommu_domain_free(domain);
	}
	*reach = NULL;
	if (!holding)
		return 0;
	domain = device_iommu_mapped(device) ? iommu_paging_domain_alloc(device) : NULL;
	if (IS_ERR_OR_NULL(domain))
		return -EOPNOTSUPP;
	error = map_pieces(domain, holding) ?: iommu_attach_device(domain, device);
	if (error)
		iommu_domain_free(domain);
	else
		*reach = domain;
	return error;
}
EXPORT_SYMBOL_GPL(osnode_confine);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: DMA of OS nodes' functions confined by the IOMMU");
MODULE_VERSION("0.1.0");
