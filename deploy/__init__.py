"""What runs visavis elsewhere than on one desk, and looks at it there."""
