# Shares of values that are not zero in the test of compression in vDNN++'s release, VGG-16, shallow to deep. The test
# gives 18 numbers and names no tensor: there are 13 ReLUs and 5 pools.
[density]
features.1.y = 0.50
features.3.y = 0.20
features.4.y = 0.30
features.6.y = 0.20
features.8.y = 0.10
features.9.y = 0.20
features.11.y = 0.20
features.13.y = 0.20
features.15.y = 0.10
features.16.y = 0.20
features.18.y = 0.20
features.20.y = 0.10
features.22.y = 0.10
features.23.y = 0.10
features.25.y = 0.20
features.27.y = 0.20
features.29.y = 0.10
features.30.y = 0.15
