package engine

import (
	"fmt"

	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/kernels/driver"
)

func (o *Options) label() string { return fmt.Sprintf("{Device} %d", *o.Device) }

// checkDevice says what contradicts itself in the device that is asked for.
func (o *Options) checkDevice() error {
	if o.Device != nil && (o.Backend == "cpu" || o.Backend == "ref") {
		return option.Errorf("{Backend} %s with %s: only the CUDA backend has devices", o.Backend, o.label())
	}
	return nil
}

// ordinal is the device to open: the one that is asked for, or the first usable one.
func (c *CUDA) ordinal(o *Options) (int, error) {
	switch {
	case o.Device == nil:
		return c.Device, c.Problem
	case len(c.Devices) == 0: // no driver, or none that shows a device
		return 0, option.Errorf("%s: %w", o.label(), c.Problem)
	}
	err := error(&driver.DeviceError{Ordinal: *o.Device})
	if d := *o.Device; d >= 0 && d < len(c.Devices) {
		err = c.Devices[d].Usable()
	}
	if err != nil {
		return 0, option.Errorf("%s of %d: %w", o.label(), len(c.Devices), err)
	}
	return *o.Device, nil
}
