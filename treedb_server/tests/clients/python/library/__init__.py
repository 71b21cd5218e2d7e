"""An application of Django, for test_django.py."""
