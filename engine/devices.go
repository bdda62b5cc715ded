package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// opened is an open CUDA backend that tells of its loss once, whoever notices.
type opened interface {
	Engine
	markLoss() bool // notes that the loss of a context is told, and whether it was before
	Notify(func(string))
}

// group is one engine's part of several devices that compute together.
type group struct {
	*kernels.Group
	leases []*lease
}

// shareAll is share of several devices.
func shareAll(d driver.Driver, devices []int, options kernels.Options) (opened, error) {
	var leases []*lease
	var members []*kernels.Backend
	for _, device := range devices {
		l, err := share(d, device, options)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("device %d: %w", device, err), closeAll(leases))
		}
		leases, members = append(leases, l), append(members, l.Backend)
	}
	if len(leases) == 1 {
		return leases[0], nil
	}
	g, err := kernels.NewGroup(members...)
	if err != nil {
		return nil, errors.Join(err, closeAll(leases))
	}
	return &group{g, leases}, nil
}

func (g *group) markLoss() bool {
	marked := false
	for _, l := range g.leases {
		if l.Context().Lost() != nil {
			marked = l.markLoss() || marked
		}
	}
	return marked
}

// Close gives all parts back.
func (g *group) Close() error { return closeAll(g.leases) }

func closeAll(leases []*lease) (err error) {
	for _, l := range leases {
		err = errors.Join(err, l.Close())
	}
	return err
}

// listed is how --device lists devices, flag is that flag as it was written.
func listed(devices []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(devices), " ", ","), "[]")
}

func (o *Options) label() string { return "{Devices} " + listed(o.Devices) }

// checkDevices says what contradicts itself in the devices that are asked for.
func (o *Options) checkDevices() error {
	if len(o.Devices) == 0 {
		return nil
	}
	if o.Backend == "cpu" || o.Backend == "ref" {
		return option.Errorf("{Backend} %s with %s: only the CUDA backend has devices", o.Backend, o.label())
	}
	for i, d := range o.Devices {
		if slices.Contains(o.Devices[:i], d) {
			return option.Errorf("%s: device %d is named twice", o.label(), d)
		}
	}
	return nil
}

// ordinals are the devices to open: those asked for, or the first usable one.
func (c *CUDA) ordinals(o *Options) ([]int, error) {
	if len(o.Devices) == 0 {
		return []int{c.Device}, c.Problem
	}
	if len(c.Devices) == 0 { // no driver, or none that shows a device
		return nil, option.Errorf("%s: %w", o.label(), c.Problem)
	}
	for _, d := range o.Devices {
		err := error(&driver.DeviceError{Ordinal: d})
		if d >= 0 && d < len(c.Devices) {
			err = c.Devices[d].Usable()
		}
		if err != nil {
			return nil, option.Errorf("%s of %d: %w", o.label(), len(c.Devices), err)
		}
	}
	return o.Devices, nil
}
