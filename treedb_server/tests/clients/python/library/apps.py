"""Django's own applications, with object ids as keys."""
from django.contrib.auth.apps import AuthConfig
from django.contrib.contenttypes.apps import ContentTypesConfig

KEYS = "django_mongodb_backend.fields.ObjectIdAutoField"


class MongoAuthConfig(AuthConfig):
    default_auto_field = KEYS


class MongoContentTypesConfig(ContentTypesConfig):
    default_auto_field = KEYS
